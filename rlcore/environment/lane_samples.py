"""Between one lane and many: samples of a space stacked to a batch, and taken out of it again."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


def stack_samples(space: spaces.Space[Any], samples: Sequence[Any]) -> Any:
    """Return one batch, every array with a leading lane axis, of single samples.

    Numbers take the type of their space where that loses no kind (float64 → float32, but never 1.5 → 1). Samples of spaces
    that are no arrays (Text, Graph, Sequence, …) become an array of objects, and so does what is no sample at all, such as rows
    of several lengths: ``check_lanes`` says what is wrong with it.
    """
    kind = type(space)  # exact types first: isinstance is slow on gymnasium's spaces
    if kind is not spaces.Box and kind is not spaces.Discrete:
        return _stack_others(space, samples)
    return _stack_arrays(space, samples)


def _stack_others(space: spaces.Space[Any], samples: Sequence[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: stack_samples(sub, [sample[key] for sample in samples]) for key, sub in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stack_samples(sub, [sample[i] for sample in samples]) for i, sub in enumerate(space.spaces))
    return _stack_arrays(space, samples) if is_array_space(space) else _objects(samples)


def _stack_arrays(space: spaces.Space[Any], samples: Sequence[Any]) -> NDArray[Any]:
    try:
        first = np.asarray(samples[0])
        batch = first[None] if len(samples) == 1 else np.stack([np.asarray(sample) for sample in samples])
    except ValueError:  # shapes that do not fit each other
        return _objects(samples)
    if batch.dtype == space.dtype or not np.can_cast(batch.dtype, _type_of(space), "same_kind"):
        return batch
    return batch.astype(space.dtype)


def one_lane(space: spaces.Space[Any], batch: Any, lane: int) -> Any:
    """Return a copy of one lane's sample, in the type that its space declares."""
    kind = type(space)  # exact types first: isinstance is slow on gymnasium's spaces
    if kind is spaces.Box:
        return np.array(batch[lane], space.dtype)
    if kind is spaces.Discrete:
        return _type_of(space).type(batch[lane])
    if isinstance(space, spaces.Dict):
        return {key: one_lane(sub, batch[key], lane) for key, sub in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(one_lane(sub, batch[i], lane) for i, sub in enumerate(space.spaces))
    return np.array(batch[lane], space.dtype) if is_array_space(space) else copy.deepcopy(batch[lane])


def is_array_space(space: spaces.Space[Any]) -> bool:
    """Whether samples of the space are arrays of one shape."""
    return isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)


def _objects(samples: Sequence[Any]) -> NDArray[np.object_]:
    objects = np.empty(len(samples), object)
    for lane, sample in enumerate(samples):
        objects[lane] = sample
    return objects


def _type_of(space: spaces.Space[Any]) -> np.dtype[Any]:
    assert space.dtype is not None, "spaces of arrays have a type"
    return space.dtype
