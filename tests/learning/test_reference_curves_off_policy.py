"""Agents with a memory on tasks that others have published figures of: four of five trainings reach them, by the last policy.

The bars are those of closed_forms.md: Stable-Baselines3's zoo (benchmark.md) has DQN at 500 on CartPole-v1 after 50,000 steps and
SAC at −157.0 ± 88.7 on Pendulum-v1 after 20,000; each bar leaves room for its own spread.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rlcore.agents.off_policy_specs import DQNSpec, ExplorationSpec, SACSpec
from rlcore.agents.specs import AgentSpec, LinearDecaySpec, MLPSpec
from tests.reference_tasks import TaskName, train_and_test

SEEDS, MUST_REACH = range(5), 4


@dataclass(frozen=True, slots=True)
class Curve:
    """One agent on one task."""

    task: TaskName
    spec: AgentSpec
    bar: float  # the mean return of 100 test episodes that counts as reached
    max_steps: int
    num_lanes: int
    steps_per_iteration: int


CURVES = {
    # The rate falls to nothing, so that the last policy is no accident of the last gradient steps.
    "dqn on CartPole-v1": Curve(
        task="CartPole-v1",
        spec=DQNSpec(
            network=MLPSpec(sizes=(128, 128)),
            learning_rate=1e-3,
            learning_rate_decay=LinearDecaySpec(num_iterations=312, final_fraction=0.0),
            discount=0.98,
            batch_size=64,
            max_gradient_norm=10.0,
            exploration=ExplorationSpec(initial=1.0, final=0.05, num_transitions=10_000),
            num_return_steps=3,
            target_update_every=250,
            memory_size=100_000,
            learn_after=1_000,
            gradient_steps_per_transition=0.5,
        ),
        bar=475.0,
        max_steps=80_000,
        num_lanes=8,
        steps_per_iteration=256,
    ),
    "sac on Pendulum-v1": Curve(
        task="Pendulum-v1",
        spec=SACSpec(
            network=MLPSpec(sizes=(256,)),
            critic_sizes=(256,),
            learning_rate=1e-3,
            discount=0.99,
            batch_size=256,
            memory_size=20_000,
            learn_after=1_000,
            gradient_steps_per_transition=1.0,
        ),
        bar=-200.0,
        max_steps=10_000,
        num_lanes=1,
        steps_per_iteration=8,
    ),
}


@pytest.mark.learning
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())
def test_four_of_five_trainings_reach_the_reference(curve: Curve, capsys: pytest.CaptureFixture[str]) -> None:
    budget = {"max_steps": curve.max_steps, "num_lanes": curve.num_lanes, "steps_per_iteration": curve.steps_per_iteration}
    reached = []
    for seed in SEEDS:
        result = train_and_test(curve.task, curve.spec, seed, **budget)
        reached.append(result.mean_return >= curve.bar)
        with capsys.disabled():  # the table is wanted of trainings that succeed, too
            print(f"\n{result}{'' if reached[-1] else f', below {curve.bar:g}'}", end="", flush=True)
    assert sum(reached) >= MUST_REACH
