"""Bounds are kept in the type of their space: a number that is carried over to that type is held to them in that type."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.environment.lane_samples import stack_samples
from rlcore.environment.space_checks import check_lanes, check_one
from rlcore.foundation.errors import SpaceError

TENTHS = spaces.Box(0.1, 0.9, (1,), np.float32)  # whose bounds are 0.100000001490… and 0.899999976158…


@pytest.mark.parametrize("value", [[0.1], [0.9], np.array([0.1]), np.clip(np.array([7.0]), 0.1, 0.9)])
def test_a_bound_as_its_user_wrote_it_lies_in_the_space(value):
    check_one(TENTHS, value, "observation")
    check_lanes(TENTHS, np.asarray(value)[None], "observation")
    assert TENTHS.contains(stack_samples(TENTHS, [value])[0])


@pytest.mark.parametrize("value", [0.0999999, 0.9000001, np.nan, np.inf, -1e300])
def test_what_lies_outside_in_the_spaces_own_type_is_refused(value):
    with np.errstate(over="ignore"):
        assert not TENTHS.contains(np.array([value]).astype(np.float32))
    with pytest.raises(SpaceError, match=r"observation must lie in \[0\.1\d*, 0\.89\d*\], was "):
        check_one(TENTHS, [value], "observation")
    with pytest.raises(SpaceError, match=r"was .* in lane 1 at index \[0\]"):
        check_lanes(TENTHS, np.array([[0.1], [value]]), "observation")


def test_a_space_of_double_numbers_holds_double_numbers():
    with pytest.raises(SpaceError, match=r"must lie in \[0\.1, 0\.9\], was 0\.9000000000000001"):
        check_one(spaces.Box(0.1, 0.9, (), np.float64), np.nextafter(0.9, 1.0), "observation")
