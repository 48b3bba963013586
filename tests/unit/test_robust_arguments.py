"""What a user hands in that cannot be is refused in one line that says what can be; nothing is rounded in silence."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcore.agents.build_agent import build_agent
from rlcore.agents.on_policy_specs import PPOSpec
from rlcore.agents.saved_policy import load_policy
from rlcore.agents.specs import MLPSpec
from rlcore.contracts import SequenceSeedSet
from rlcore.environment import EnvWrapper, SameAction, looped_parts
from rlcore.environment.evaluation import evaluate
from rlcore.foundation.errors import CheckpointError, ConfigError, ContractError
from rlcore.foundation.random_streams import RandomStreams, hash_key
from rlcore.training import backtest, train
from tests.agents_toy import GivenObservation, a2c_spec, dqn_spec, make_agent, make_rollout, ppo_spec, sac_spec
from tests.environment_toys import SpendAction, spend_parts, spend_seeds
from tests.training_toy import HOVER_STEPS, Hover, HoverObservation, HoverPush, Nearness, hover_parts, walk_parts

SPEC = PPOSpec(network=MLPSpec(sizes=(8,)), learning_rate=0.01, discount=0.9, batch_size=16, num_repeats=2)
NOT_ROOTS: list[Any] = [1.7, 1.0, 2**64, -1, "1", None, True, np.float64(2)]
not_roots = pytest.mark.parametrize("root", NOT_ROOTS, ids=map(repr, NOT_ROOTS))


@not_roots
def test_roots_of_randomness_are_whole_numbers_of_64_bits(root):
    rule = r"must be a whole number from 0 to 18446744073709551615, was "
    with pytest.raises(ConfigError, match=f"root_seed {rule}"):
        RandomStreams(root)
    with pytest.raises(ConfigError, match=f"root_seed {rule}"):
        make_agent(ppo_spec(), root=root)
    with pytest.raises(ConfigError, match=f"root_seed {rule}"):
        train(hover_parts(), SPEC, [1.0], root_seed=root, num_lanes=1, episodes_per_iteration=1, max_iters=1)
    if root is not None:
        with pytest.raises(ConfigError, match=f"root {rule}"):
            EnvWrapper(hover_parts(), SequenceSeedSet([1.0]), root=root)


def test_the_ends_of_the_range_are_roots():
    keys = [int(RandomStreams(root).lanes("a", *np.zeros((3, 1), np.int64)).key[0]) for root in (0, 2**63, 2**64 - 1)]
    assert len(set(keys)) == 3
    streams = RandomStreams(np.int32(5))
    assert type(streams.root) is int and streams == RandomStreams(5) == pickle.loads(pickle.dumps(streams))


@pytest.mark.parametrize("part", [1.5, 2**64, np.array([0.5]), np.float32(1)], ids=repr)
def test_keys_are_made_of_whole_numbers_and_texts(part):
    with pytest.raises(ConfigError, match="numbers in a key of random numbers must be whole and of 64 bits"):
        hash_key(1, "orders", part)


@pytest.mark.parametrize("ids", [[1.7], [1.0, 2.0], [True], np.array([0.0]), ["0"], [[0, 1]], 3], ids=repr)
def test_seed_ids_of_an_evaluation_are_whole_numbers(ids):
    policy = SameAction(SpendAction.action_space, 1)
    with pytest.raises(ConfigError, match=r"seed_ids must be whole numbers, of shape \(episodes,\), was"):
        evaluate(spend_parts(), policy, spend_seeds(4), RandomStreams(0), "test", 2, ids)
    assert len(evaluate(spend_parts(), policy, spend_seeds(4), RandomStreams(0), "test", 2, [])) == 0
    assert len(evaluate(spend_parts(), policy, spend_seeds(4), RandomStreams(0), "test", 2, [3, 0])) == 2


@pytest.mark.parametrize("num_lanes", [2.5, 0, -1, "2", True])
def test_lanes_of_an_evaluation_are_counted(num_lanes):
    with pytest.raises(ConfigError, match=r"num_lanes must be .*1 or more, was"):
        evaluate(spend_parts(), SameAction(SpendAction.action_space, 1), spend_seeds(4), RandomStreams(0), "test", num_lanes)


@pytest.mark.parametrize("allowed", ["skip", "Keep", True, None])
def test_failed_rows_are_refused_or_kept(allowed):
    policy = SameAction(hover_parts().action_interpreter.action_space, 1)
    with pytest.raises(ConfigError, match="allow_failed must be 'refuse' or 'keep', was"):
        backtest(hover_parts(), policy, [1.0], root_seed=0, num_lanes=1, allow_failed=allowed)


def test_an_environment_refuses_what_is_no_seed_and_goes_on():
    environment, twin = (EnvWrapper(spend_parts(), spend_seeds(4), root=3) for _ in range(2))
    for seed_id in (1.7, 1.0, "1", None, True):
        with pytest.raises(ConfigError, match="seed_id must be a whole number from 0 to 3, was"):
            environment.reset(options={"seed_id": seed_id})
    for seed in (2**70, 2**64, -1, 1.7):
        with pytest.raises(ConfigError, match="seed must be a whole number from 0 to 18446744073709551615, was"):
            environment.reset(seed=seed)
    with pytest.raises(ConfigError, match="option of reset"):
        environment.reset(seed=9, options={"id": 1})
    assert [environment.reset()[1] for _ in range(6)] == [twin.reset()[1] for _ in range(6)]
    assert environment.reset(seed=2**64 - 1)[1] == twin.reset(seed=2**64 - 1)[1]
    assert environment.reset(seed=np.int64(5))[1] == twin.reset(seed=5)[1]
    assert environment.reset(options={"seed_id": np.int32(2)})[1]["seed_id"] == 2


@pytest.mark.parametrize("device", ["tpu", "meta", "cuda:77", 0, None, "cuda:x"])
def test_devices_are_those_of_the_list(device, tmp_path):
    rule = r"device must be 'cpu', 'cuda', 'cuda:<number>' or 'auto', and there, was "
    parts = walk_parts()
    each = parts.state_interpreter.observation_space, parts.action_interpreter.action_space, parts.state_interpreter
    with pytest.raises(ConfigError, match=rule):
        build_agent(SPEC, *each, root_seed=0, device=device)
    build_agent(SPEC, *each, root_seed=0, device="auto").save_policy(tmp_path / "policy.pt")
    with pytest.raises(ConfigError, match=rule):
        load_policy(tmp_path / "policy.pt", device=device)
    assert load_policy(tmp_path / "policy.pt", device="auto").act(np.zeros(2, np.float32)) in (0, 1, 2)


@pytest.mark.parametrize("agent", ["ppo", PPOSpec, {"kind": "ppo"}, None], ids=str)
def test_an_agent_is_a_spec_or_an_agent(agent):
    with pytest.raises(ConfigError, match=r"agent must be an Agent or a spec of one, PPOSpec\(…\) say, was "):
        train(hover_parts(), agent, [1.0], root_seed=0, num_lanes=1, episodes_per_iteration=1, max_iters=1)


class WidePush(HoverPush):
    action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)


class ThreeNumbers(HoverObservation):
    observation_space = spaces.Box(-20, 20, (3,), np.float32)

    def interpret(self, state, status):
        return np.array([state, 0, 0], np.float32)


def three_number_parts() -> Any:
    return looped_parts(Hover, ThreeNumbers(), HoverPush(), Nearness(), max_steps=HOVER_STEPS, at_max_steps="truncate")


@pytest.mark.parametrize("spec", [SPEC, a2c_spec(), sac_spec()], ids=["ppo", "a2c", "sac"])
def test_agents_and_saved_policies_act_in_their_own_spaces_only(spec, tmp_path):
    settings = {"root_seed": 0, "num_lanes": 2}
    fit = {**settings, "episodes_per_iteration": 2, "max_iters": 1}
    agent = train(hover_parts(HoverPush()), spec, [1.0, 0.5], **fit).agent
    agent.save_policy(tmp_path / "policy.pt")
    saved = load_policy(tmp_path / "policy.pt")
    other_action, other_observation = hover_parts(WidePush()), three_number_parts()
    for policy in (agent, saved):
        assert len(backtest(hover_parts(HoverPush()), policy, [1.0], **settings)) == 1
        with pytest.raises(ConfigError, match=r"action space of the task must be .*-1\.0, 1\.0.* was .*-2\.0, 2\.0"):
            backtest(other_action, policy, [1.0], **settings)
        with pytest.raises(ConfigError, match=r"observation space of the task must be .*\(2,\).* was .*\(3,\)"):
            backtest(other_observation, policy, [1.0], **settings)
    for parts in (other_action, other_observation):
        with pytest.raises(ConfigError, match=r"space of the task must be .* was"):
            train(parts, agent, [1.0], **fit)
    with pytest.raises(ConfigError, match="observation space of the task must be"):
        saved.evaluation_policy(other_observation.state_interpreter)


def test_a_policy_is_read_and_written_by_text_or_path(tmp_path):
    agent = make_agent(ppo_spec())
    agent.save_policy(str(tmp_path / "policy.pt"))
    assert load_policy(str(tmp_path / "policy.pt")).action_space == spaces.Discrete(3)


def test_no_message_tells_users_to_switch_safety_off(tmp_path):
    torch.save({"format": Path("anything but plain data")}, tmp_path / "foreign.pt")
    (tmp_path / "pickled.pt").write_bytes(pickle.dumps(Path("a")))
    (tmp_path / "text.pt").write_text("no policy")
    for name in ("foreign.pt", "pickled.pt", "text.pt"):
        with pytest.raises(CheckpointError, match=f"{name} must be a whole file that save_policy wrote") as caught:
            load_policy(tmp_path / name)
        assert "weights_only" not in str(caught.value) and caught.value.__suppress_context__


ONE = spaces.Box(-np.inf, np.inf, (2,), np.float64)


@pytest.mark.parametrize("spec", [ppo_spec(), a2c_spec()], ids=["ppo", "a2c"])
@pytest.mark.parametrize("value", [np.inf, np.nan, 1e300])
def test_a_bad_observation_after_a_cut_is_to_blame(spec, value):
    agent = make_agent(spec, GivenObservation(ONE))
    rollout = make_rollout(agent.training_policy(), lambda rng, lanes: rng.normal(size=(lanes, 2)))
    before = agent.state_dict()
    step, lane = next(zip(*np.nonzero(rollout.truncated & rollout.is_alive), strict=True))
    following = rollout.next_reference.copy()
    following[step, lane, 1] = value
    wanted = rf"observation.* was {value}.* for seed {rollout.seed_id[step, lane]} at step {rollout.step[step, lane] + 1}"
    with pytest.raises(ContractError, match=wanted.replace("+", r"\+")):
        agent.learn(replace(rollout, next_reference=following))
    after = agent.state_dict()
    assert all(torch.equal(before["model"][name], after["model"][name]) for name in before["model"])
    # What follows where nobody looks may be anything.
    unused = rollout.terminated & rollout.is_alive
    agent.learn(replace(rollout, next_reference=np.where(unused[..., None], value, rollout.next_reference)))


class InfiniteFromTen(GivenObservation):
    """References hold a finite number where the observation, once it is built, does not."""

    is_compressing = True

    def expand(self, reference):
        return np.where(reference > 10.0, np.inf, reference)


def test_a_bad_observation_after_a_cut_is_to_blame_if_it_is_built_later():
    agent = make_agent(ppo_spec(), InfiniteFromTen(ONE))
    rollout = make_rollout(agent.training_policy(), lambda rng, lanes: rng.normal(size=(lanes, 2)))
    step, lane = next(zip(*np.nonzero(rollout.truncated & rollout.is_alive), strict=True))
    following = rollout.next_reference.copy()
    following[step, lane, 1] = 11.0
    wanted = rf"were not for seed {rollout.seed_id[step, lane]} at step {rollout.step[step, lane] + 1}: observation was inf; mend"
    with pytest.raises(ContractError, match=wanted):
        agent.learn(replace(rollout, next_reference=following))


@pytest.mark.parametrize("spec", [ppo_spec(), dqn_spec(), sac_spec()], ids=["ppo", "dqn", "sac"])
@pytest.mark.parametrize("value", [1e300, 3.4e38])
def test_numbers_too_large_for_the_network_are_blamed_and_not_its_parameters(spec, value):
    agent = make_agent(spec, GivenObservation(ONE))
    with torch.no_grad():
        for parameter in agent.model.parameters():
            parameter.mul_(5.0)
    observation = np.array([[0.0, 1.0], [value, value]])
    with pytest.raises(ContractError, match=r"in lane 1: observation was .*e\+.*too large .*float32.*; mend") as caught:
        agent.evaluation_policy().decide(observation, None, None, None)
    assert "parameters" not in str(caught.value)


def test_broken_parameters_are_still_blamed():
    agent = make_agent(ppo_spec(), GivenObservation(ONE))
    with torch.no_grad():
        next(agent.model.parameters())[0] = torch.nan
    with pytest.raises(ContractError, match="its parameters are to blame"):
        agent.evaluation_policy().decide(np.ones((2, 2)), None, None, None)


def test_a_class_that_workers_cannot_import_is_named_as_such(tmp_path):
    script = textwrap.dedent(
        """
        from rlcore.environment import SubprocBackend, RandomActions
        from rlcore.environment.evaluation import evaluate
        from rlcore.foundation.errors import ConfigError
        from rlcore.foundation.random_streams import RandomStreams
        from tests.environment_toys import Spend, spend_parts, spend_seeds
        if __name__ == "__main__":
            class Hidden(Spend):
                pass
            parts = spend_parts(simulator=Hidden())
            with SubprocBackend(1) as backend:
                try:
                    evaluate(parts, RandomActions(parts.action_interpreter.action_space), spend_seeds(2),
                             RandomStreams(0), "test", 2, backend=backend)
                except ConfigError as error:
                    print(error)
        """
    )
    (tmp_path / "script.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, tmp_path / "script.py"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "must be importable in worker processes, were not" in ran.stdout and "Hidden" in ran.stdout, ran.stderr[-2000:]


def test_an_environment_ends_where_its_simulator_says_that_it_does():
    parts = looped_parts(Hover, HoverObservation(), HoverPush(), Nearness(), max_steps=3)  # which never ends by itself
    environment = EnvWrapper(parts, SequenceSeedSet([1.0]), root=0)
    environment.reset()
    push = np.zeros(1, np.float32)
    for _ in range(2):
        environment.step(push)
    with pytest.raises(ContractError, match="episode of seed 0 must end within max_steps = 3 steps"):
        environment.step(push)
