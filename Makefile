# Every target makes what it needs: a fresh clone needs Python 3.11-3.13 and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Two threads on two shared cores make torch several times slower than one (libgomp spins).
export OMP_NUM_THREADS ?= 1
export DO_NOT_TRACK := true
export MLFLOW_DISABLE_TELEMETRY := true
export PREFECT_SERVER_ANALYTICS_ENABLED := false

.PHONY: setup demo test check format test-learning chaos bench bench-workers pictures clean

setup: $(STAMP)

# torch is named exactly and first: an unpinned torch takes a CUDA build of several gigabytes.
$(STAMP): pyproject.toml infra/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch==2.13.0 -e '.[dev]' -c infra/constraints.txt
	touch $(STAMP)

demo: setup
	$(BIN)/fillwright run demo

# By name, which puts the flows first: the default puts files of few tests last, and theirs take the longest.
test: setup
	$(BIN)/python -m pytest -m 'not learning and not long and not chaos' -n 2 --dist loadfile --no-loadscope-reorder

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/unit tests/architecture -m 'not learning and not long and not chaos' -n 2 --dist loadfile

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test-learning: setup
	$(BIN)/python -m pytest -m learning

chaos: setup
	$(BIN)/python -m pytest -m chaos -s tests/chaos

bench: setup
	$(BIN)/fillwright bench

bench-workers: setup
	$(BIN)/python -m tests.benchmarks.sleeping_environment

pictures: setup
	$(BIN)/python infra/take_pictures.py pictures

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
