"""Saved policies of any experiment: the kinds of network that the project ships, and those of one's own plugins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.config.loading import make_registry

if TYPE_CHECKING:
    from rlcore.agents.saved_policy import LoadedPolicy


def load_policy(path: Path | str, plugins: Sequence[str] = (), device: str = "cpu") -> LoadedPolicy:
    """Read a policy that a training saved; ``.act(observation)`` needs no store, vessel or trainer.

    Args:
        path: ``policy.pt`` of a training.
        plugins: those of its experiment, where its network came from one.
        device: where it acts.

    Raises:
        CheckpointError: for a file that is missing, damaged or of another version.
        ConfigError: for a network whose kind is not registered.
    """
    from rlcore.agents.saved_policy import load_policy as load

    return load(path, make_registry(plugins), device)
