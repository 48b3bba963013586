"""The results of a run on a task of one's own: figures of every seed, and their spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flows.references import TestReference, TrainingReference, ValidationReference
from flows.results import prefixed
from flows.seed_spread import spread_over_seeds
from flows.tracking.training_reporter import last_figures


@dataclass(frozen=True, slots=True)
class TaskResults:
    """What a run gives."""

    of_seed: dict[int, dict[str, float]]
    """seed → figures, as far as the run went.

    ``train/…`` of the newest iteration that has the figure, ``best_validation/…`` and ``test/…`` of the chosen policy.
    """

    @property
    def figures(self) -> dict[str, float]:
        """Of the run as a whole: the spread over seeds."""
        return spread_over_seeds(list(self.of_seed.values()))


def gather_task(
    trainings: Sequence[TrainingReference], validations: Sequence[ValidationReference], tests: Sequence[TestReference]
) -> TaskResults:
    """Put together what the tasks left."""
    of_seed = {training.seed: last_figures(training.path, dict) for training in trainings}
    for prefix, references in (("best_validation", validations), ("test", tests)):
        for reference in references:
            of_seed[reference.seed] |= prefixed(prefix, reference.figures)
    return TaskResults(of_seed)
