"""What everything stands on: errors, lane trees, random streams, fingerprints, whole files, the registry of parts."""

from rlcore.foundation.atomic_files import folder_written_atomically, write_atomically
from rlcore.foundation.errors import (
    CheckpointError,
    ConfigError,
    ContractError,
    DataError,
    EvaluationError,
    FillwrightError,
    InputError,
    SpaceError,
    nearest_name,
)
from rlcore.foundation.fingerprints import (
    canonical_json,
    fingerprint_arrays,
    fingerprint_file,
    fingerprint_of,
    fingerprint_sources,
)
from rlcore.foundation.lanes import concat_lanes, first_array, map_lanes, num_lanes, pad_lanes, stack_steps, take_lanes
from rlcore.foundation.random_streams import LaneRandomness, RandomStreams, hash_key, key_generator, key_seed
from rlcore.foundation.registry import CATEGORIES, Registry

__all__ = [
    "CATEGORIES",
    "CheckpointError",
    "ConfigError",
    "ContractError",
    "DataError",
    "EvaluationError",
    "FillwrightError",
    "InputError",
    "LaneRandomness",
    "RandomStreams",
    "Registry",
    "SpaceError",
    "canonical_json",
    "concat_lanes",
    "fingerprint_arrays",
    "fingerprint_file",
    "fingerprint_of",
    "fingerprint_sources",
    "first_array",
    "folder_written_atomically",
    "hash_key",
    "key_generator",
    "key_seed",
    "map_lanes",
    "nearest_name",
    "num_lanes",
    "pad_lanes",
    "stack_steps",
    "take_lanes",
    "write_atomically",
]
