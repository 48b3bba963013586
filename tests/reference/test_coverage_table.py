"""Every known failure, and every one of QlibRL's RL tests, is covered by a test that exists, or says why not."""

from __future__ import annotations

import ast
import copy
import re
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TABLE = Path(__file__).with_name("coverage.yaml")
FAILURES = [f"{letter}{number}" for letter, count in (("T", 66), ("Q", 22), ("D", 31)) for number in range(1, count + 1)]
QLIBRL_TESTS = {  # file → its tests, as pytest collects them at microsoft/qlib d5379c52
    "test_data_queue": (
        "test_pytorch_dataloader",
        "test_multiprocess_shared_dataloader",
        "test_exit_on_crash_finite",
        "test_exit_on_crash_infinite",
    ),
    "test_finite_env": (
        "test_finite_dummy_vector_env",
        "test_finite_shmem_vector_env",
        "test_finite_subproc_vector_env",
        "test_nan",
        "test_finite_dummy_vector_env_complex",
        "test_finite_shmem_vector_env_complex",
    ),
    "test_logger": ("test_simple_env_logger", "test_logger_with_env_wrapper"),
    "test_trainer": ("test_trainer", "test_trainer_fast_dev_run", "test_trainer_earlystop", "test_trainer_checkpoint"),
    "test_saoe_simple": (
        "test_pickle_data_inspect",
        "test_simulator_first_step",
        "test_simulator_stop_twap",
        "test_simulator_stop_early",
        "test_simulator_start_middle",
        "test_interpreter",
        "test_network_sanity",
        "test_twap_strategy[dummy]",
        "test_twap_strategy[subproc]",
        "test_twap_strategy[shmem]",
        "test_cn_ppo_strategy",
        "test_ppo_train",
    ),
    "test_qlib_simulator": ("test_simulator_first_step", "test_simulator_stop_twap", "test_interpreter"),
}
FORMS = ({"tests"}, {"tests", "later"}, {"cannot_occur"}, {"later"}, {"see"})  # of an entry
CORRECTIONS = {*FAILURES, "asserts nothing", "asserts little"}


class OnceLoader(yaml.SafeLoader):
    """YAML in which a key that stands twice is an error."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise ValueError(f"keys must stand once, {sorted(twice)} stand twice")
        return super().construct_mapping(node, deep)


@pytest.fixture(scope="module")
def table():
    return yaml.load(TABLE.read_text(encoding="utf-8"), OnceLoader)  # a SafeLoader


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the names of a file's tests, none where it does not exist."""
    file = ROOT / path
    if not (path.startswith("tests/") and file.is_file()):
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def problems_of_entry(entry, failures):
    if entry.keys() not in FORMS:
        yield f"has {sorted(entry)}"
    for named in entry.get("tests", ()):
        path, _, name = named.partition("::")
        if name not in names_in(path):
            yield f"names {named}, which does not exist"
    if entry.get("tests") == []:
        yield "names no test"
    for reason in (entry.get("cannot_occur"), entry.get("later")):
        if reason is not None and len(reason.split()) < 5:
            yield f"gives no reason: {reason!r}"
    for other in entry.get("see", ()):
        if "see" in failures.get(other, {"see": ()}):
            yield f"sends to {other}, which says nothing itself"


def problems_of_qlibrl_test(entry, failures):
    if entry.keys() == {"left_out"}:
        if len(entry["left_out"].split()) < 5:
            yield "gives no reason"
        return
    rest = {key: value for key, value in entry.items() if key not in ("result", "corrects")}
    yield from problems_of_entry(rest, failures)
    if "tests" not in rest:
        yield "names no test"
    corrects = entry.get("corrects", [])
    if entry.get("result") not in ("same", "corrected") or bool(corrects) != (entry["result"] == "corrected"):
        yield f"says {entry.get('result')!r} and corrects {corrects}"
    for correction in corrects:
        if correction not in CORRECTIONS:
            yield f"corrects {correction!r}, which is no defect of the list"


def problems_of(table):
    """Return everything that is wrong with a table."""
    failures, qlibrl = table["known_failures"], table["qlibrl_tests"]
    wanted = [f"{file}::{name}" for file, names in QLIBRL_TESTS.items() for name in names]
    found = [f"{key} has no entry" for key in FAILURES if key not in failures]
    found += [f"{key} has no entry" for key in wanted if key not in qlibrl]
    found += [f"{key} is unknown" for key in [*(failures.keys() - set(FAILURES)), *(qlibrl.keys() - set(wanted))]]
    for key, entry in failures.items():
        found += [f"{key} {problem}" for problem in problems_of_entry(entry, failures)]
    for key, entry in qlibrl.items():
        found += [f"{key} {problem}" for problem in problems_of_qlibrl_test(entry, failures)]
    return found


def test_nothing_is_missing_and_every_test_exists(table):
    assert problems_of(table) == []


def test_29_of_31_of_qlibrls_tests_are_ours(table):
    left_out = [key for key, entry in table["qlibrl_tests"].items() if "left_out" in entry]
    assert len(table["qlibrl_tests"]) == 31
    assert left_out == ["test_data_queue::test_pytorch_dataloader", "test_saoe_simple::test_cn_ppo_strategy"]


def test_what_is_not_covered_stays_little(table):
    """A failure without a test is the exception; this number goes down, or somebody says why."""
    untested = [key for key, entry in table["known_failures"].items() if "tests" not in entry and "see" not in entry]
    assert untested == ["T59", "D15"]


MISTAKES = {
    "no entry": lambda t: t["known_failures"].pop("T7"),
    "unknown": lambda t: t["known_failures"].update(T67={"cannot_occur": "there are not so many of them"}),
    "which does not exist": lambda t: t["known_failures"]["T7"].update(tests=["tests/reference/test_coverage_table.py::test_x"]),
    "names no test": lambda t: t["known_failures"]["T7"].update(tests=[]),
    "gives no reason": lambda t: t["known_failures"].update(T59={"cannot_occur": "never"}),
    "says nothing itself": lambda t: t["known_failures"]["T66"].update(see=["T66"]),
    r"has \[\]": lambda t: t["known_failures"].update(T7={}),
    "corrects 'D99'": lambda t: t["qlibrl_tests"]["test_finite_env::test_nan"].update(corrects=["D99"]),
    r"says 'same' and corrects \['Q14'": lambda t: t["qlibrl_tests"]["test_finite_env::test_nan"].update(result="same"),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_in_the_table_are_found(table, message):
    spoilt = copy.deepcopy(table)
    MISTAKES[message](spoilt)
    new = set(problems_of(spoilt)) - set(problems_of(table))
    assert any(re.search(message, problem) for problem in new)


def test_a_key_that_stands_twice_is_found():
    with pytest.raises(ValueError, match=r"\['T1'\] stand twice"):
        yaml.load("known_failures: {T1: {}, T1: {}}", OnceLoader)  # a SafeLoader
