"""A step record is a frozen dataclass in everything but the time that it takes to build."""

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from typing import Generic, TypeVar

import pytest

from rlcore.foundation.records import step_record

Kind = TypeVar("Kind")


@step_record
class Point(Generic[Kind]):
    x: Kind
    y: int

    @property
    def doubled(self):
        return 2 * self.y


def test_a_record_is_a_frozen_dataclass_with_slots():
    point = Point(1.5, y=2)
    assert type(point) is Point and is_dataclass(point) and [field.name for field in fields(point)] == ["x", "y"]
    assert (point.x, point.y, point.doubled) == (1.5, 2, 4)
    assert point == Point(1.5, 2) != Point(1.5, 3) and hash(point) == hash(Point(1.5, 2))
    assert repr(point) == "Point(x=1.5, y=2)" and not hasattr(point, "__dict__")


def test_a_record_is_locked():
    point = Point(1.5, 2)
    with pytest.raises(FrozenInstanceError):
        point.x = 2.5
    with pytest.raises(FrozenInstanceError):
        del point.y
    assert point == Point(1.5, 2)


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2, 3)])
def test_a_record_takes_each_field_once(arguments):
    with pytest.raises(TypeError):
        Point(*arguments)


def test_copies_are_locked_records():
    point = Point(1.5, 2)
    for other in (pickle.loads(pickle.dumps(point)), copy.deepcopy(point), replace(point, y=2)):
        assert other == point and type(other) is Point
        with pytest.raises(FrozenInstanceError):
            other.y = 3
