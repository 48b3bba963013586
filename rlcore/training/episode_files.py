"""Files of episodes, one for each phase, that a continued training cuts back: what the CSV and the parquet logger share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from rlcore.environment.episode_table import EpisodeTable
from rlcore.foundation.errors import ConfigError, ContractError, nearest_name
from rlcore.training.table_file import KEY, TableFile

Phase = Literal["train", "validation", "test"]
PHASES: tuple[Phase, ...] = ("train", "validation", "test")


class EpisodeFiles:
    """``train_episodes.<suffix>``, ``validation_episodes.<suffix>``, ``test_…``; a further validation set ``validation/<name>``
    has ``validation_<name>_episodes.<suffix>``.

    A new training's first rows replace the files that it is going to write, whoever wrote them; a continued training cuts them
    back to the checkpoint's iteration, and a test replaces the test file. Files of other names are nobody's business here.

    Args:
        phases: whose episodes are written.
        make_file: from a path to the file there.
    """

    def __init__(self, folder: Path, phases: Sequence[Phase], suffix: str, make_file: Callable[[Path], TableFile]) -> None:
        if isinstance(phases, str):
            raise ConfigError(f"phases must be a sequence of phases, was {phases!r}: write [{phases!r}]")
        for phase in phases:
            if phase not in PHASES:
                raise ConfigError(f"phase must be one of {', '.join(PHASES)}, was {phase!r}{nearest_name(phase, PHASES)}")
        self._folder, self._phases, self._suffix, self._make_file = Path(folder), tuple(phases), suffix, make_file
        self._files: dict[str, TableFile] = {}
        self._iteration = 0
        self._stems = {_stem(kind) for kind in self._phases if kind != "test"}  # of the files of this training

    def claims(self, phases: Sequence[str]) -> list[Path]:
        """Learn which phases the training has; returns the file of each kind of phase that is written by it, or by a test."""
        if "train" not in phases:
            return [self._folder / f"{_stem(kind)}.{self._suffix}" for kind in self._phases if kind in phases]
        kinds = [kind for kind in self._phases if kind != "test"]
        self._stems = {_stem(phase) for phase in phases if phase.split("/", 1)[0] in kinds}
        return [self._folder / f"{_stem(kind)}.{self._suffix}" for kind in kinds]

    def reset(self) -> None:
        self._iteration = 0

    def append(self, phase: str, iteration: int, table: EpisodeTable) -> None:
        """Add the episodes of a phase.

        Raises:
            ContractError: for a column that is called "iteration".
        """
        kind = phase.split("/", 1)[0]
        if kind not in self._phases:
            return
        if kind == "test":
            self._file(_stem(phase)).clear()
        else:
            if self._iteration == 0:  # not before: until then another's files may still be wanted
                for stem in sorted(self._stems):
                    self._file(stem).clear()
            self._iteration = iteration
            self._stems.add(_stem(phase))
        if not len(table):  # a training by steps, in which no episode ended
            return
        if KEY in table.columns:
            raise ContractError(f"a column of the episode table must not be called {KEY!r} to be written to a file: rename it")
        rows = table.to_frame().to_dict("records")
        self._file(_stem(phase)).append(iteration, [{str(name): cell for name, cell in row.items()} for row in rows])

    def close(self) -> None:
        """Put all files into their final form."""
        for file in self._files.values():
            file.close()

    def state_dict(self) -> dict[str, Any]:
        num_columns = {stem: self._file(stem).num_columns for stem in sorted(self._stems)} if self._iteration else {}
        return {"iteration": self._iteration, "num_columns": num_columns}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._iteration = state["iteration"]
        self._stems |= state["num_columns"].keys()
        for stem in sorted(self._stems):
            if stem in state["num_columns"]:
                self._file(stem).cut_after(self._iteration, state["num_columns"][stem])
            else:  # its first rows came after the checkpoint
                self._file(stem).clear()

    def _file(self, stem: str) -> TableFile:
        if stem not in self._files:
            self._files[stem] = self._make_file(self._folder / f"{stem}.{self._suffix}")
        return self._files[stem]


def _stem(phase: str) -> str:
    return f"{phase.replace('/', '_')}_episodes"
