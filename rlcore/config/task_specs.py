"""What specs of a task of one's own derive from.

A task is described whole (``TaskSpec``), or by its parts, one file section each (kind ``parts``): simulator, observation, action,
reward and seeds for one episode at a time. Both come from plugins; seeds have kinds that are built in.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from rlcore.agents.specs import Spec
from rlcore.config.experiment import Term
from rlcore.config.field_classes import field_class
from rlcore.config.specs import InputPath
from rlcore.config.training_specs import Count

if TYPE_CHECKING:
    from rlcore.contracts.auxiliary_info import AuxiliaryInfo
    from rlcore.contracts.interpreters import ActionInterpreter, StateInterpreter
    from rlcore.contracts.reward import Reward, Terms
    from rlcore.contracts.seeds import SeedSet
    from rlcore.contracts.simulator import Simulator
    from rlcore.environment.parts import EnvironmentParts, SpaceChecks


@dataclass(frozen=True, slots=True)
class TaskSeeds:
    """What trains, what chooses, and what judges."""

    train: SeedSet[Any]
    validation: SeedSet[Any] | Mapping[str, SeedSet[Any]]  # one set, or several by name
    test: SeedSet[Any]


@dataclass(frozen=True, slots=True)
class Task:
    """A task that can be trained on."""

    parts: EnvironmentParts
    seeds: TaskSeeds


class TaskSpec(Spec):
    """A whole task. Kinds of one's own derive from this and are registered as ``task``.

    Fields are of class ``training``; those that say which episodes there are carry ``field_class("data")``.
    """

    @abstractmethod
    def build(self, space_checks: SpaceChecks) -> Task:
        """Return the parts, for one episode (``looped_parts``) or for lanes (``EnvironmentParts``), and the seed sets.

        Args:
            space_checks: what the experiment says at ``runtime.space_checks``; to be handed on to the parts.
        """


@dataclass(frozen=True, slots=True)
class EpisodeShape:
    """What the other parts of a one-episode task may need to know of its simulator, so that no number is written twice."""

    simulator: EpisodeSimulatorSpec
    max_steps: int


class EpisodeSimulatorSpec(Spec):
    """Simulates one episode. Kinds of one's own derive from this and are registered as ``simulator``."""

    @abstractmethod
    def build(self) -> Callable[[Any], Simulator[Any, Any, Any]]:
        """Return what makes a simulator of an initial state, picklable: the class, or a ``functools.partial`` of it."""


class EpisodeObservationSpec(Spec):
    """What the agent sees of an episode. Kinds of one's own derive from this and are registered as ``observation``."""

    @abstractmethod
    def build(self, shape: EpisodeShape) -> StateInterpreter[Any]: ...


class EpisodeActionSpec(Spec):
    """What the agent's actions mean. Kinds of one's own derive from this and are registered as ``action``."""

    @abstractmethod
    def build(self, shape: EpisodeShape) -> ActionInterpreter[Any, Any]: ...


class EpisodeRewardSpec(Spec):
    """One named term of the reward. Kinds of one's own derive from this and are registered as ``reward``."""

    weight: float
    """What the term is multiplied with before the terms are added up."""

    @abstractmethod
    def build(self, shape: EpisodeShape) -> Reward[Any] | Terms:
        """Return the reward; or several by name, with weights of their own, which all show as ``<term>.<name>``."""


class EpisodeAuxiliarySpec(Spec):
    """What else is worth knowing after each step. Kinds of one's own derive from this and are registered as ``auxiliary``."""

    @abstractmethod
    def build(self, shape: EpisodeShape) -> AuxiliaryInfo[Any]: ...


class SeedsSpec(Spec):
    """Initial states, one for each episode. Kinds of one's own derive from this and are registered as ``seeds``."""

    @abstractmethod
    def build(self, shape: EpisodeShape) -> SeedSet[Any]:
        """Return the seed set; its fingerprint says what is in it."""


class ValuesSpec(SeedsSpec):
    """Initial states written out."""

    kind: Literal["values"]
    initial_states: Annotated[tuple[Any, ...], Field(min_length=1)]
    """Numbers, texts, lists or mappings, each of them handed to the simulator as it stands here."""

    def build(self, shape: EpisodeShape) -> SeedSet[Any]:
        from rlcore.contracts.seeds import SequenceSeedSet

        return SequenceSeedSet(self.initial_states)


class IntegersSpec(SeedsSpec):
    """The integers from ``first`` on, for simulators that make an episode of a number."""

    kind: Literal["integers"]
    first: int = 0
    """The first of them."""
    count: Count
    """How many."""

    def build(self, shape: EpisodeShape) -> SeedSet[Any]:
        from rlcore.contracts.seeds import SequenceSeedSet

        return SequenceSeedSet(range(self.first, self.first + self.count))


class RowsSpec(SeedsSpec):
    """The rows of a CSV or parquet file, each of them a mapping by the names of the columns."""

    kind: Literal["rows"]
    path: InputPath
    """The file."""

    def build(self, shape: EpisodeShape) -> SeedSet[Any]:
        import pandas

        from rlcore.contracts.seeds import SequenceSeedSet
        from rlcore.foundation.errors import DataError

        read = pandas.read_parquet if self.path.suffix == ".parquet" else pandas.read_csv
        try:
            rows = read(self.path).to_dict("records")
        except (OSError, ValueError) as error:  # pandas' and pyarrow's own are ValueErrors
            raise DataError(f"{self.path}: must be a CSV or parquet file that can be read: {error}") from error
        if not rows:
            raise DataError(f"{self.path}: must hold at least one row, held none")
        return SequenceSeedSet(rows)


class SeedSections(Spec):
    """Which episodes train, choose and judge."""

    train: SeedsSpec
    """Drawn in endless shuffled passes."""
    validation: SeedsSpec | dict[Term, SeedsSpec]
    """Choose the checkpoint; every seed once. One set, or several by name: then the first of them chooses."""
    test: SeedsSpec
    """Judge; training and choosing never touch them."""

    def build(self, shape: EpisodeShape) -> TaskSeeds:
        several = self.validation
        validation = (
            several.build(shape) if isinstance(several, SeedsSpec) else {name: one.build(shape) for name, one in several.items()}
        )
        return TaskSeeds(self.train.build(shape), validation, self.test.build(shape))


class PartsTaskSpec(TaskSpec):
    """A task made of one-episode parts, each with a section of its own."""

    kind: Literal["parts"]
    simulator: EpisodeSimulatorSpec
    """What happens."""
    observation: EpisodeObservationSpec
    """What the agent sees."""
    action: EpisodeActionSpec
    """What the agent's actions mean."""
    reward: dict[Term, EpisodeRewardSpec] = Field(min_length=1)
    """Named, weighted terms; the names become the names of metrics."""
    auxiliary: EpisodeAuxiliarySpec | None = None
    """What else is worth knowing after each step; no policy sees it."""
    seeds: SeedSections = Field(json_schema_extra=field_class("data"))
    """Which episodes there are."""
    max_steps: Count
    """The largest number of steps that an episode can take."""
    at_max_steps: Literal["fail", "truncate"] = "fail"
    """What becomes of an episode that goes on: an error, or it is cut and its value goes on, as tasks that never end need it."""

    def build(self, space_checks: SpaceChecks) -> Task:
        from rlcore.environment.looped import looped_parts

        shape = EpisodeShape(self.simulator, self.max_steps)
        parts = looped_parts(
            self.simulator.build(),
            self.observation.build(shape),
            self.action.build(shape),
            {name: (term.build(shape), term.weight) for name, term in self.reward.items()},
            max_steps=self.max_steps,
            at_max_steps=self.at_max_steps,
            auxiliary=None if self.auxiliary is None else self.auxiliary.build(shape),
            space_checks=space_checks,
        )
        return Task(parts, self.seeds.build(shape))
