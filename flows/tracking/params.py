"""The fields of an experiment as MLflow's params, by which its pages compare runs."""

from __future__ import annotations

import json
import re
from typing import Any

from rlcore.config.experiment import ExperimentSpec

LONGEST_NAME, LONGEST_VALUE = 250, 500  # MLflow's limits; servers before 2.10 refuse values of more than 500 characters
_NOT_IN_NAMES = re.compile(r"[^\w./ -]")


def params_of(experiment: ExperimentSpec) -> dict[str, str]:
    """Return dotted key -> value of what is traded and what the agent becomes, cut to what MLflow takes; files by their content.

    The whole experiment is among the run's artifacts.
    """
    fields = experiment.fields("data", "training")
    return {_NOT_IN_NAMES.sub("_", name)[:LONGEST_NAME]: _cut(_text(value)) for name, value in fields.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
