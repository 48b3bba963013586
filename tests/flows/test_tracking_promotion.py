"""The promotion policy: shipped once, readable by both sides, each rule able to stop a candidate."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.tracking.promotion import Candidate, shipped_policy, unmet_rules

ROOT = Path(__file__).resolve().parents[2]
GOOD = Candidate(num_seeds=3, num_test_days=12, verdicts={"shortfall_bps": "better"})


def test_a_candidate_that_meets_every_rule_may_be_promoted() -> None:
    assert unmet_rules(shipped_policy(), GOOD) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"num_seeds": 2}, "seeds"),
        ({"num_test_days": 9}, "test days"),
        ({"verdicts": {"shortfall_bps": "not significant"}}, "verdict"),
        ({"verdicts": {}}, "missing"),
    ],
)
def test_each_rule_stops_a_candidate(change: dict[str, object], word: str) -> None:
    unmet = unmet_rules(shipped_policy(), GOOD.model_copy(update=change))
    assert len(unmet) == 1
    assert word in unmet[0]


def test_the_folder_of_the_tracking_server_shows_the_shipped_policy() -> None:
    in_package = ROOT / "flows" / "tracking" / "promotion_policy.yaml"
    assert (ROOT / "mlflow" / "promotion_policy.yaml").read_text() == in_package.read_text()
