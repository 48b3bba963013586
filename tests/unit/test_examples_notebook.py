"""The example notebook runs as it stands, learns what it says, and was committed with the outputs of a real run."""

import json
import re
from importlib.resources import as_file, files

import nbformat
import pytest
from nbclient import NotebookClient

# What the notebook's own variables say at the end.
_REPORT = """
import json

print("REPORT" + json.dumps({
    "trained": float(table["return"].mean()),
    "random": float(random["return"].mean()),
    "rows": [len(table), len(random)],
    "adds_up": float(abs(sum(table[f"reward/{name}"] for name in task.reward.weights) - table["return"]).max()),
    "terms": task.reward.weights,
    "iterations": [trained.fit.iteration, continued.fit.iteration],
    "same_metrics": trained.fit.metrics == continued.fit.metrics,
    "resumed_from": newest.name,
    "checkpoints": sorted(path.name for path in (folder / "whole").glob("iteration_*")),
    "episodes_logged": len((folder / "episodes" / "train_episodes.csv").read_text().splitlines()) - 1,
    "end_of_the_saved_policys_episode": places[-1],
}))
"""


@pytest.fixture(scope="module")
def notebook():
    with as_file(files("rlcore") / "examples" / "simple_example.ipynb") as path:
        return nbformat.read(path, as_version=4)


def test_the_notebook_runs_and_shows_what_it_says(notebook, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where the notebook writes
    (tmp_path / "work").mkdir()
    run = nbformat.from_dict(json.loads(json.dumps(notebook)))
    run.cells.append(nbformat.v4.new_code_cell(_REPORT))
    NotebookClient(run, timeout=240, resources={"metadata": {"path": str(tmp_path / "work")}}).execute()
    (printed,) = [output["text"] for output in run.cells[-1].outputs if output["output_type"] == "stream"]
    report = json.loads(printed.removeprefix("REPORT"))
    # At best 30 steps of 1.25; standing at 0 from the first step is worth that, and no cart that starts 5 away can.
    assert report["random"] < 8 < 25 < report["trained"] < 37.5
    assert report["rows"] == [50, 50] and report["adds_up"] < 1e-9
    assert report["terms"] == {"place.near": 0.25, "place.there": 1.0, "effort": -0.1}
    assert report["iterations"] == [10, 10] and report["same_metrics"]
    assert report["resumed_from"] == "iteration_000004.ckpt"
    assert len(report["checkpoints"]) in (2, 3)  # the last two, and the best
    assert re.fullmatch(r"iteration_000010--?\d+\.\d\.ckpt", report["checkpoints"][-1])
    assert report["episodes_logged"] == 400
    assert abs(report["end_of_the_saved_policys_episode"]) <= 0.5
    assert list((tmp_path / "work").iterdir()) == []  # nothing is left where it was started


def test_the_committed_notebook_shows_a_real_run_and_no_machine(notebook):
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert len(outputs) >= 6 and not any(output["output_type"] == "error" for output in outputs)
    text = json.dumps(notebook)
    assert not re.search(r"/(home|root|tmp|work|usr|Users|private)/|[A-Z]:\\\\", text)
    assert "execution" not in {key for cell in cells for key in cell.metadata}  # when and how fast it ran is nobody's business


def test_a_cell_that_fails_would_be_noticed(notebook, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    from nbclient.exceptions import CellExecutionError

    broken = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("assert 1 > 2, 'planted'")], metadata=notebook.metadata)
    with pytest.raises(CellExecutionError, match="planted"):
        NotebookClient(broken, timeout=120).execute()
