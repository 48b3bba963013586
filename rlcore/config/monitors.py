"""Whether a metric that is to be monitored can exist: a training of hours must not end with nothing ever judged.

The names are those of ``rlcore.training.metrics``. What a simulator or an agent calls its own figures is known only when it runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from rlcore.config.experiment import ExperimentSpec
from rlcore.foundation.errors import ConfigError, nearest_name

KeyPath = tuple[str, ...]

_COUNTS = "num_episodes|num_failed|truncated_fraction"
_STATISTICS = ("mean", "std", "num_missing")
_STATISTIC = f".+/({'|'.join(_STATISTICS)})"
_OF_TRAINING = re.compile(f"train/({_COUNTS}|total_episodes|total_steps|reward_per_step|update/.+|{_STATISTIC})")
_OF_ONE_SET = re.compile(f"({_COUNTS}|{_STATISTIC})")
# What only a set's name can stand before: with one set, which has no name, this is a set that is not there.
_OF_A_NAMED_SET = re.compile(rf"(?!reward/|component/|auxiliary/)[^/]+/({_COUNTS}|(return|num_steps)/(mean|std))")


def monitors_of(experiment: ExperimentSpec) -> Iterator[tuple[KeyPath, str]]:
    """Yield (key path, metric) of all that an experiment monitors by name."""
    sections = {"early_stopping": experiment.training.early_stopping, "checkpoints": experiment.training.checkpoints}
    for name, section in sections.items():
        if section is not None and section.monitor is not None:
            yield ("training", name, "monitor"), section.monitor


def check_monitor(path: KeyPath, monitor: str, phases: Sequence[str] | None) -> None:
    """Refuse a metric that no training of this experiment can have.

    Args:
        path: the key that names it.
        monitor: the metric.
        phases: of the validation sets: "validation" for one, "validation/<name>" for each of several; None: not yet known.

    Raises:
        ConfigError: naming the nearest metric that there is.
    """
    if _OF_TRAINING.fullmatch(monitor) or _is_of_validation(monitor, phases):
        return
    hint = _hint(monitor, phases or ("validation",))
    forms = [f"{phase}/<figure>/mean" for phase in phases or ("validation",)]
    raise ConfigError(f"{'.'.join(path)} must be train/<figure>/mean or {' or '.join(forms)}, was {monitor!r}{hint}")


def check_figures(monitors: Iterable[tuple[KeyPath, str]], phases: Sequence[str], figures: Collection[str]) -> None:
    """Refuse figures that no episode has: ``check_monitor`` sees only the form of a name.

    Args:
        monitors: (key path, metric).
        phases: "train", and those of the validation sets.
        figures: of the episodes of a trial.

    Raises:
        ConfigError: naming the nearest figure that there is.
    """
    for path, monitor in monitors:
        phase = next((phase for phase in phases if monitor.startswith(f"{phase}/")), None)
        figure, _, statistic = monitor.removeprefix(f"{phase}/").rpartition("/")
        if phase is None or statistic not in _STATISTICS or monitor.startswith("train/update/") or figure in figures:
            continue
        hint = nearest_name(figure, figures) or f": they have {', '.join(sorted(figures))}"
        raise ConfigError(f"{'.'.join(path)} must name a figure that episodes have, was {monitor!r} with {figure!r}{hint}")


def _hint(monitor: str, phases: Sequence[str]) -> str:
    figure = monitor.removeprefix("validation/")
    if figure != monitor and _OF_ONE_SET.fullmatch(figure) and not _OF_A_NAMED_SET.fullmatch(figure):
        near = [f"{phases[0]}/{figure}"]  # right, but for the name of a set
    elif not _OF_ONE_SET.fullmatch(figure) and (
        _OF_TRAINING.fullmatch(f"{monitor}/mean") or _is_of_validation(f"{monitor}/mean", phases)
    ):
        near = [f"{monitor}/mean"]
    else:
        near = [*(f"{phase}/return/mean" for phase in phases), "train/return/mean", "train/reward_per_step"]
    return nearest_name(monitor, near) or f": such as {near[0]!r}"


def _is_of_validation(monitor: str, phases: Sequence[str] | None) -> bool:
    if phases is None:
        return monitor.startswith("validation/") and re.search(rf"/({_COUNTS}|mean|std|num_missing)$", monitor) is not None
    for phase in phases:
        figure = monitor.removeprefix(f"{phase}/")
        if figure != monitor and _OF_ONE_SET.fullmatch(figure):
            return phase != "validation" or _OF_A_NAMED_SET.fullmatch(figure) is None
    return False
