"""The phases of a run on a task of one's own, as its tables show them: training, every validation set by its name, test."""

from __future__ import annotations

from collections.abc import Iterable

_VALIDATION = "best_validation"


def phases_of(names: Iterable[str], ending: str = "") -> dict[str, str]:
    """Return phase -> its heading, for those phases whose mean return is among ``names`` of figures.

    Args:
        names: of figures, ``<phase>/return/mean<ending>`` among them.
        ending: ``/seeds_mean`` for figures over all trainings.
    """
    last = f"/return/mean{ending}"
    found = [name.removesuffix(last) for name in names if name.endswith(last)]
    validations = [_VALIDATION] if _VALIDATION in found else [name for name in found if _is_set(name)]
    headings = {"train": "training, latest"}
    headings |= {name: "validation" + name.removeprefix(_VALIDATION).replace("/", " ") for name in validations}
    headings |= {"test": "test"}
    return {phase: heading for phase, heading in headings.items() if phase in found}


def _is_set(name: str) -> bool:
    # Of several sets each has a name without a slash; "reward/return" of one is a term of the reward that is called so.
    return name.startswith(f"{_VALIDATION}/") and name.count("/") == 1
