"""A seed set's fingerprint: equal exactly where the states are, in whatever form they come, and alike in every process."""

from __future__ import annotations

import enum
import logging
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
import torch

from rlcore.contracts import SequenceSeedSet
from rlcore.foundation.errors import ConfigError


def long_array(changed: float = 0.0) -> np.ndarray:
    array = np.zeros(2000)
    array[1000] = changed
    return array


@dataclass
class Holder:
    content: Any
    hidden: Any = field(default=0, repr=False)


class Plain:
    def __init__(self, content: Any) -> None:
        self.content = content

    @cached_property
    def expensive(self) -> int:
        return 7


class Slotted:
    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content


class Pair(NamedTuple):
    one: Any
    other: int


class Side(enum.IntEnum):
    BUY = 1
    SELL = 2


def fingerprint(states: Any, name: str = "") -> str:
    return SequenceSeedSet(states, name).fingerprint


DIFFERENT: dict[str, tuple[Any, Any]] = {
    "long arrays": ([long_array()], [long_array(77.0)]),
    "last digits": ([np.array([1.00000000012])], [np.array([1.00000000049])]),
    "last bit": ([0.1 + 0.2], [0.3]),
    "float32 and float64": ([np.zeros(3)], [np.zeros(3, np.float32)]),
    "number and text": ([1], ["1"]),
    "True and 1": ([True], [1]),
    "sign of zero": ([0.0], [-0.0]),
    "in a dict": ([{"a": long_array()}], [{"a": long_array(1.0)}]),
    "in tuples in lists": ([[(long_array(),)]], [[(long_array(1.0),)]]),
    "in a named tuple": ([Pair(long_array(), 1)], [Pair(long_array(1.0), 1)]),
    "in a dataclass": ([Holder(long_array())], [Holder(long_array(1.0))]),
    "not shown in its repr": ([Holder(1, hidden=1)], [Holder(1, hidden=2)]),
    "in a namespace": ([SimpleNamespace(a=long_array())], [SimpleNamespace(a=long_array(1.0))]),
    "in a plain object": ([Plain(1)], [Plain(2)]),
    "in slots": ([Slotted(long_array())], [Slotted(long_array(1.0))]),
    "in a deque": ([deque([long_array()])], [deque([long_array(1.0)])]),
    "object array": (np.array([1, "a"], object), np.array([1, "b"], object)),
    "object array of arrays": ([np.array([long_array(), None], object)], [np.array([long_array(1.0), None], object)]),
    "series": (pd.Series([1.0, 2.0]), pd.Series([1.0, 3.0])),
    "series' index": (pd.Series([1.0, 2.0]), pd.Series([1.0, 2.0], index=[1, 0])),
    "frame": (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [1, 3]})),
    "frame's columns": (pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]})),
    "large integers beside floats": (
        pd.DataFrame({"a": [2**53], "b": [0.5]}),
        pd.DataFrame({"a": [2**53 + 1], "b": [0.5]}),
    ),
    "rows": ([pd.Series(long_array())], [pd.Series(long_array(1.0))]),
    "tensors": ([torch.zeros(2000)], [torch.ones(2000)]),
    "paths": ([Path("a")], [Path("b")]),
    "times": ([datetime(2020, 1, 1, tzinfo=UTC)], [datetime(2020, 1, 2, tzinfo=UTC)]),
    "zones": ([datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/Paris"))], [datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/Rome"))]),
    "nanoseconds": ([pd.Timestamp(1)], [pd.Timestamp(2)]),
    "datetime64": ([np.datetime64(1, "ns")], [np.datetime64(2, "ns")]),
    "bytes": ([b"a"], [b"b"]),
    "decimals": ([Decimal("1.0")], [Decimal("1.00")]),
    "choices": ([Side.BUY], [Side.SELL]),
    "sets": ([{1, 2}], [{1, 3}]),
    "order": ([1, 2], [2, 1]),
    "nesting": ([[1], [2]], [[1, 2], []]),
    "ranges": (range(3), range(1, 4)),
}


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_other_states_have_another_fingerprint(one, other, caplog):
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one) == fingerprint(one) != fingerprint(one, "named")
    assert not caplog.records


def test_equal_states_have_equal_fingerprints_however_they_were_made():
    assert fingerprint([{"a": 1, "b": 2}]) == fingerprint([{"b": 2, "a": 1}])
    assert fingerprint([np.arange(6).reshape(2, 3).T]) == fingerprint([np.ascontiguousarray(np.arange(6).reshape(2, 3).T)])
    shared = long_array()
    assert fingerprint([shared, shared]) == fingerprint([long_array(), long_array()])
    used = Plain(1)
    assert used.expensive == 7 and fingerprint([used]) == fingerprint([Plain(1)])


def test_states_that_hold_themselves_come_to_an_end():
    circles = []
    for content in (1, 1, 2):
        circle = Plain(content)
        circle.self = circle
        circles.append(fingerprint([circle]))
    assert circles[0] == circles[1] != circles[2]


def test_fingerprints_are_alike_in_every_process():
    script = (
        "from rlcore.contracts import SequenceSeedSet\n"
        "class Start:\n"
        "    def __init__(self, place): self.place, self.tags, self.opaque = place, {'a', 'b', 'c', str(place)}, object()\n"
        "print(SequenceSeedSet([Start(place) for place in range(5)]).fingerprint)\n"
    )
    run = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in range(2)]
    assert run[0].stdout == run[1].stdout and len(run[0].stdout.strip()) == 16


@pytest.mark.parametrize("opaque", [object, threading.Lock, lambda: lambda: 1, lambda: partial(fingerprint, 1)])
def test_what_shows_nothing_counts_by_type_and_position_and_that_is_said_once(opaque, caplog):
    seeds = SequenceSeedSet([opaque(), 1])
    with caplog.at_level(logging.WARNING):
        assert seeds.fingerprint == seeds.fingerprint == fingerprint([opaque(), 1]) != fingerprint([1, opaque()])
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 3  # one for each of the sets
    assert "give the seed set a name that changes with its content" in said[0]


@pytest.mark.parametrize(
    "states",
    [(state for state in [1]), {1, 2}, {0: 1}, "states.csv", b"12", 5, np.array(5), iter([1])],
    ids=["generator", "set", "dict", "text", "bytes", "number", "one number's array", "iterator"],
)
def test_what_is_no_sequence_is_refused(states):
    with pytest.raises(ConfigError, match=r"initial states must be a sequence, .* was of type \w+: put them into a list"):
        SequenceSeedSet(states)


def test_tables_are_sequences_of_rows_whatever_their_index():
    taken = SequenceSeedSet(pd.Series([5.0, 6.0, 7.0], index=[2, 1, 0])).take(np.array([0, 2]))
    assert taken.tolist() == [5.0, 7.0]
    rows = SequenceSeedSet(pd.DataFrame({"a": [1, 2]}, index=["x", "y"])).take(np.array([1]))
    assert rows[0]["a"] == 2
