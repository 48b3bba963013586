"""QlibRL's cases of whole runs on its simple simulator (tests/rl/test_saoe_simple.py), re-expressed as ours.

Those of single steps and of TWAP stand in ``test_execution_qlib_cases``. Nowhere: ``test_cn_ppo_strategy``, which needs trained
weights that are not to be had.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlcore.agents.build_agent import build_agent
from rlcore.agents.on_policy_specs import PPOSpec
from rlcore.agents.policies import ActorPolicy
from rlcore.contracts.reward import WeightedReward
from rlcore.contracts.status import LaneStatus
from rlcore.environment import EnvironmentParts, Passage, begin
from rlcore.environment.engine import advance
from rlcore.environment.rollout import decide
from rlcore.execution.actions import CategoricalFractions, even_fractions
from rlcore.execution.learning.specs import RecurrentSpec
from rlcore.execution.observations import FullHistoryObservation
from rlcore.execution.orders import OrderSet
from rlcore.execution.rewards import ConcentrationPenalty, PriceAdvantageReward
from rlcore.execution.simulator import FastSimulator
from rlcore.foundation.random_streams import RandomStreams
from rlcore.market.features import history_features
from rlcore.training.trainer import Trainer
from rlcore.training.vessel import TrainingVessel
from tests.execution_market import planted_store

torch.set_num_threads(1)
DAYS = ("2013-12-10", "2013-12-11")
SESSION = ("America/New_York", ("09:30", "16:00"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aal")
    return planted_store(folder, "US.AAL", DAYS, "XNYS", SESSION, close=25.370001, volume=(450072.0, 5041147.0))


def orders_of(store, count, seed=1):
    rng = np.random.default_rng(seed)
    return OrderSet(
        store,
        row=rng.integers(0, 2, count),
        side=rng.choice([-1.0, 1.0], count),
        quantity=rng.uniform(1, 1000, count),
        start_tick=np.zeros(count),
        end_tick=np.full(count, 390),
    )


def learning_parts(store, num_fractions=4):
    observation = FullHistoryObservation(store, history_features(store), 30, "today")
    reward = {"advantage": (PriceAdvantageReward(), 1.0), "concentration": (ConcentrationPenalty(), 100.0)}
    actions = CategoricalFractions(even_fractions(num_fractions))
    return EnvironmentParts(FastSimulator(store, 30, None, "close"), observation, actions, WeightedReward(reward))


def recurrent_agent(parts, **changes):
    spec = PPOSpec(
        **{
            "network": RecurrentSpec(hidden_size=8, output_size=8),
            "learning_rate": 1e-3,
            "discount": 1.0,
            "batch_size": 64,
            "num_repeats": 5,
            **changes,
        }
    )
    spaces_of = parts.state_interpreter.observation_space, parts.action_interpreter.action_space
    return build_agent(spec, *spaces_of, parts.state_interpreter, root_seed=0, device="cpu")


def test_a_day_has_its_minutes_in_prices_and_features(store):
    """Corrected (D1): the day is read from a store of plain arrays; QlibRL's pickles are refused by its own reader at HEAD."""
    row = store.row_of("US.AAL", DAYS[1])
    assert store.session_ticks[row] == 390 and np.isfinite(store.array("close")[row, :390]).all()
    features = history_features(store)
    observation = FullHistoryObservation(store, features, 30, "today_and_previous")
    simulator = FastSimulator(store, 30, None, "close")
    whole_day = OrderSet(store, row=[row], side=[1.0], quantity=[1.0], start_tick=[0], end_tick=[390])
    view = simulator.view(simulator.start(whole_day.take(np.arange(1))))
    zero = np.zeros(1, np.int64)
    shown = observation.interpret(view, LaneStatus(zero, zero, zero, np.zeros(1, bool)))
    assert shown["history"].shape == shown["previous_history"].shape == (1, 390, len(features.names))


def test_the_network_acts_at_every_step_of_a_day(store):
    """Corrected (E): not only that an action comes out, but that what the critic says moves with what is seen."""
    parts = learning_parts(store, num_fractions=13)
    agent = recurrent_agent(parts)
    passage = Passage(RandomStreams(0), "test", 1)
    ids, policy = np.zeros(1, np.int64), agent.training_policy()
    assert isinstance(policy, ActorPolicy)
    lanes = begin(parts, orders_of(store, 1).take(ids), ids, ids)
    values, ticks = [], []
    while not lanes.status.is_done[0]:
        decision = decide(policy, lanes, None, passage)
        assert 0 <= decision.action[0] <= 13 and decision.log_prob[0] <= 0.0
        values.append(float(decision.value[0]))
        ticks.append(int(lanes.reference["tick"][0]))
        lanes, _ = advance(parts, lanes, np.zeros(1, np.int64))  # wait until the last step
    assert ticks == list(range(0, 390, 30))
    assert len(set(values)) == 13


def test_a_recurrent_policy_trains(store):
    """Corrected (E): QlibRL's case asserts nothing. Two iterations count their episodes, add up, and move the parameters."""
    parts = learning_parts(store)
    agent = recurrent_agent(parts)
    before = {name: parameter.detach().clone() for name, parameter in agent.model.named_parameters()}
    vessel = TrainingVessel(parts, agent, orders_of(store, 40), episodes_per_iteration=100, num_lanes=50, root_seed=0)
    fitted = Trainer(max_iters=2).fit(vessel)
    assert (fitted.iteration, fitted.num_episodes) == (2, 200)
    metrics = fitted.metrics
    terms = metrics["train/reward/advantage/mean"] + metrics["train/reward/concentration/mean"]
    assert metrics["train/return/mean"] == pytest.approx(terms, rel=1e-9)
    assert metrics["train/price_advantage_bps/mean"] == pytest.approx(metrics["train/reward/advantage/mean"], abs=1e-6)
    assert metrics["train/fill_rate/mean"] == 1.0
    assert 5 <= metrics["train/update/gradient_steps"] <= 5 * 13 * 100 / 64
    moved = [name for name, parameter in agent.model.named_parameters() if not torch.equal(parameter, before[name])]
    assert moved == list(before)
