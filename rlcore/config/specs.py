"""What specs of the parts of order execution derive from, a user's own included.

Those of agents and networks: ``rlcore.agents.specs``; those of a task of one's own: ``rlcore.config.task_specs``.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo

from rlcore.agents.specs import Spec
from rlcore.config.overrides import CommandLineText

if TYPE_CHECKING:
    from rlcore.contracts.interpreters import LaneActionInterpreter, LaneStateInterpreter
    from rlcore.contracts.reward import LaneReward
    from rlcore.contracts.simulator import LaneSimulator
    from rlcore.market.store import MarketStore

FOLDER = "folder"  # key of the validation context: where relative paths of the file start


def _absolute(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, (str, Path)):
        return value
    path = Path(value).expanduser()
    if path.is_absolute():
        return path
    folder = None if isinstance(value, CommandLineText) else (info.context or {}).get(FOLDER)
    return (folder or Path.cwd()) / path


# A path: relative to the experiment file, or to the working directory where it was given on the command line.
InputPath = Annotated[Path, BeforeValidator(_absolute)]


@dataclass(frozen=True, slots=True)
class TaskShape:
    """What is known of a task once its market is: parts are built from a spec and this."""

    store: MarketStore
    simulator: LaneSimulator[Any, Any, Any, Any, Any]
    ticks_per_step: int
    participation_cap: float | None


class MarketSpec(Spec):
    """Where market data comes from."""

    @abstractmethod
    def build_store(self, destination: Path, as_of: date | None) -> MarketStore:
        """Write a market store to ``destination`` and open it; no day after ``as_of`` is in it."""

    def build_trial_store(self, folder: Path) -> MarketStore | None:
        """Write a few days of made-up bars of the same form into ``folder``, on which costs are estimated; None: no estimate."""
        return None


class SimulatorSpec(Spec):
    """How orders are filled."""

    ticks_per_step: Annotated[int, Field(ge=1)]
    """Bars between two decisions; steps are aligned to the day's grid."""
    participation_cap: Annotated[float, Field(gt=0, le=1)] | None
    """The largest share of a bar's volume that an order may take; null: no limit."""

    @abstractmethod
    def build(self, store: MarketStore) -> LaneSimulator[Any, Any, Any, Any, Any]: ...


class ObservationSpec(Spec):
    """What the agent sees."""

    @abstractmethod
    def build(self, shape: TaskShape) -> LaneStateInterpreter[Any]: ...


class ActionSpec(Spec):
    """What the agent's actions mean."""

    @abstractmethod
    def build(self, shape: TaskShape) -> LaneActionInterpreter[Any, Any]: ...


class RewardSpec(Spec):
    """One named term of the reward."""

    weight: float
    """What the term is multiplied with before the terms are added up."""

    @abstractmethod
    def build(self, shape: TaskShape) -> LaneReward[Any]: ...
