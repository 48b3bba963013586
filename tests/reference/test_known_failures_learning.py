"""Failures that others have met in learning from episodes (the project's lists T1-T66 and D1-D31), where they would show with us.

``coverage.yaml`` says which test covers which; those of this file had no other.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlcore.agents.build_agent import build_agent
from rlcore.agents.specs import MLPSpec
from rlcore.foundation.errors import CheckpointError
from rlcore.training.trainer import Trainer
from tests.agents_toy import a2c_spec, alive_count, discrete_sac_spec, dqn_spec, make_agent, make_rollout, ppo_spec, sac_spec
from tests.training_toy import HoverPush, assert_same, hover_parts, hover_vessel, toy_vessel, walk_parts

torch.set_num_threads(1)
SCALED = MLPSpec(sizes=(8,), observation_scaling="running")


def test_every_transition_of_a_long_iteration_is_learnt_from():
    """D11: QlibRL's buffer of 20,000 drops what an iteration collects beyond it."""
    agent = make_agent(ppo_spec(batch_size=1000, num_repeats=1, network=MLPSpec(sizes=(4,))))
    rollout = make_rollout(agent.training_policy(), lanes=10_000)
    assert alive_count(rollout) > 25_000
    assert agent.learn(rollout)["gradient_steps"] == alive_count(rollout) // 1000  # fewer left over go with the last


def fitted(spec, root_seed=3):
    """Return the end of a training: of walks for a choice among actions, of hovering for a SAC."""
    push = HoverPush() if spec.kind == "sac" else None
    parts = walk_parts() if push is None else hover_parts(push)
    spaces = parts.state_interpreter.observation_space, parts.action_interpreter.action_space
    agent = build_agent(spec, *spaces, parts.state_interpreter, root_seed=root_seed, device="cpu")
    vessel = toy_vessel(agent) if push is None else hover_vessel(agent, push)
    Trainer(max_iters=3).fit(vessel)
    return vessel.state_dict()


WARMING_UP = {"learn_after": 60}  # the first two iterations
DECIDED = [ppo_spec(), a2c_spec(), dqn_spec(**WARMING_UP), sac_spec(**WARMING_UP), discrete_sac_spec(**WARMING_UP)]


@pytest.mark.parametrize("spec", DECIDED, ids=[spec.kind for spec in DECIDED])
def test_a_run_is_decided_by_its_roots(spec):
    """T24, T25: warm-up, exploration, batches and parameters; what the global generators say before makes no difference."""
    states = []
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002  # the global generator is what is tested
        torch.manual_seed(seed)
        states.append(fitted(spec))
    assert_same(*states)  # of those with a memory, every transition that they remember
    with pytest.raises(AssertionError):
        assert_same(states[0], fitted(spec, root_seed=4))


@pytest.mark.parametrize("spec", [ppo_spec(network=SCALED), dqn_spec(network=SCALED)], ids=["ppo", "dqn"])
def test_a_checkpoint_without_its_statistics_is_refused(spec):
    """T32, T36, T37: nobody goes on with a fresh mean of 0 and variance of 1."""
    agent = make_agent(spec)
    agent.learn(make_rollout(agent.training_policy()))
    state = agent.state_dict()
    statistics = [name for name in state["model"] if "scaling" in name]
    assert len(statistics) >= 2
    for name in statistics:
        without = {key: value for key, value in state["model"].items() if key != name}
        with pytest.raises(CheckpointError, match=name):
            make_agent(spec).load_state_dict({**state, "model": without})
