"""May a run's agent be promoted? The rules are data: ``promotion_policy.yaml`` beside this file (``mlflow/`` links to it)."""

from __future__ import annotations

from importlib import resources
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]


class ComparisonRule(BaseModel):
    """What the comparison with the reference baseline must say."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    verdict: Literal["better", "not significant"]


class PromotionPolicy(BaseModel):
    """What a trained agent must show."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_seeds: Count
    min_test_days: Count
    comparison: ComparisonRule


class Candidate(BaseModel):
    """What a run has to show."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_seeds: int
    num_test_days: int
    verdicts: dict[str, str]
    """Metric → verdict of the comparison over all orders and seeds with the reference baseline."""


def shipped_policy() -> PromotionPolicy:
    """Return the policy that is installed with Fillwright."""
    text = (resources.files("flows.tracking") / "promotion_policy.yaml").read_text(encoding="utf-8")
    return PromotionPolicy.model_validate(yaml.safe_load(text))


def unmet_rules(policy: PromotionPolicy, candidate: Candidate) -> list[str]:
    """Return one sentence for each rule that the candidate does not meet; none: it may be promoted."""
    wanted, verdict = policy.comparison, candidate.verdicts.get(policy.comparison.metric, "missing")
    rules = [
        (candidate.num_seeds >= policy.min_seeds, f"seeds must be at least {policy.min_seeds}, were {candidate.num_seeds}"),
        (
            candidate.num_test_days >= policy.min_test_days,
            f"test days must be at least {policy.min_test_days}, were {candidate.num_test_days}",
        ),
        (
            verdict in ("better", wanted.verdict),
            f"verdict on {wanted.metric} must be {wanted.verdict!r}, was {verdict!r}",
        ),
    ]
    return [sentence for is_met, sentence in rules if not is_met]
