"""The laws of the environment as functions to run on one's own parts.

Each ``check_…`` returns a ``LawResult`` ("holds" or "not checked") or raises a ``LawError`` that says where; ``check_parts``
runs them all and gives a report. Actions are random ones of the declared space unless a policy is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlcore.contracts.policy import Policy
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.conformance.account_laws import (
    Balance,
    check_components_add_up,
    check_conservation,
    check_exactly_once,
)
from rlcore.environment.conformance.lane_laws import (
    PerturbFuture,
    SeedIds,
    check_finished_lanes_frozen,
    check_lane_independence,
    check_no_look_ahead,
)
from rlcore.environment.conformance.results import ConformanceReport, LawError, LawResult
from rlcore.environment.conformance.space_laws import check_truthful_spaces
from rlcore.environment.parts import EnvironmentParts

__all__ = [
    "Balance",
    "ConformanceReport",
    "LawError",
    "LawResult",
    "PerturbFuture",
    "check_components_add_up",
    "check_conservation",
    "check_exactly_once",
    "check_finished_lanes_frozen",
    "check_lane_independence",
    "check_no_look_ahead",
    "check_parts",
    "check_truthful_spaces",
]


def check_parts(
    parts: EnvironmentParts,
    seeds: SeedSet[Any],
    *,
    policy: Policy | None = None,
    perturb_future: PerturbFuture | None = None,
    balance: Balance | None = None,
    seed_ids: SeedIds = None,
    root: int = 0,
) -> ConformanceReport:
    """Check every law on a few seeds and return all verdicts; nothing is raised (see ``report.raise_if_violated``).

    Args:
        policy: also held to lane independence and no look-ahead.
        perturb_future: see ``check_no_look_ahead``.
        balance: see ``check_conservation``.
        seed_ids: which seeds to try; None: a dozen, spread over the set.
    """
    some: dict[str, Any] = {"seed_ids": seed_ids, "root": root}
    checks: dict[str, Callable[[], LawResult]] = {
        "truthful spaces": lambda: check_truthful_spaces(parts, seeds, **some),
        "lane independence": lambda: check_lane_independence(parts, seeds, policy=policy, **some),
        "frozen lanes": lambda: check_finished_lanes_frozen(parts, seeds, **some),
        "no look-ahead": lambda: check_no_look_ahead(parts, seeds, perturb_future, policy=policy, **some),
        "conservation": lambda: check_conservation(parts, seeds, balance, **some),
        "exactly once": lambda: check_exactly_once(parts, seeds, **some),
        "components add up": lambda: check_components_add_up(parts, seeds, **some),
    }
    return ConformanceReport(tuple(_verdict(law, check) for law, check in checks.items()))


def _verdict(law: str, check: Callable[[], LawResult]) -> LawResult:
    try:
        return check()
    except Exception as error:  # a part that breaks its contract may raise anything
        reason = str(error) if isinstance(error, LawError) else f"{type(error).__name__}: {error}"
        return LawResult(law, "violated", reason.removeprefix(f"{law}: "))
