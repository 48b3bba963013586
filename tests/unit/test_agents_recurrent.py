"""The recurrent network: every way of reading a history gives what a plain GRU over the masked history gives."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from rlcore.agents.on_policy_specs import PPOSpec
from rlcore.execution.learning.causal_encoder import CausalEncoder
from rlcore.execution.learning.specs import RecurrentSpec
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.random_streams import LaneRandomness
from tests.agents_toy import ToyHistory, dqn_spec, lane_randomness, make_agent, make_rollout, ppo_spec, shuffled

torch.set_num_threads(1)
SMALL = RecurrentSpec(hidden_size=8, output_size=4)


def small_agent(interpreter: ToyHistory, spec: PPOSpec | None = None) -> Any:
    return make_agent(spec or ppo_spec(network=SMALL), interpreter)


def small_network(days: str) -> RecurrentSpec:
    return RecurrentSpec(hidden_size=8, output_size=4, days=days)


def plain_features(network: Any, observation: Any) -> torch.Tensor:
    """The network in the words of its paper: whole sequences through torch's GRU, then the output in question."""

    def branch(encoder: Any, inputs: np.ndarray, position: np.ndarray) -> torch.Tensor:
        outputs, _ = encoder.gru(encoder.embed(torch.from_numpy(inputs)).transpose(0, 1))
        return outputs[torch.from_numpy(position), torch.arange(len(position))]

    history = np.pad(observation["history"], ((0, 0), (1, 0), (0, 0)))
    side = torch.from_numpy(np.concatenate([observation["side"] > 0, observation["side"] < 0], -1).astype(np.float32))
    branches = [
        branch(network.market, history, observation["tick"]),
        branch(network.private, observation["private_history"], observation["step"]),
        network.side(side),
    ]
    if network.previous is not None:
        yesterday = observation["previous_history"]
        branches.append(branch(network.previous, yesterday, np.full(len(yesterday), yesterday.shape[1] - 1)))
    return network.together(torch.cat(branches, -1))  # type: ignore[no-any-return]  # nn.Module


@pytest.mark.parametrize("days", ["today", "today_and_previous"])
def test_dense_observations(days: str) -> None:
    interpreter = ToyHistory(yesterday="shown")
    network = small_agent(interpreter, ppo_spec(network=small_network(days))).model.network
    observation = interpreter.expand(interpreter.draw(np.random.default_rng(0), 50))
    torch.testing.assert_close(network(observation), plain_features(network, observation), atol=1e-6, rtol=1e-5)


def test_shared_histories_in_update_and_in_decision() -> None:
    interpreter = ToyHistory()
    network = small_agent(interpreter).model.network
    for seed, lanes in ((0, 1), (1, 50), (2, 300)):
        reference = interpreter.draw(np.random.default_rng(seed), lanes)
        expected = plain_features(network, interpreter.expand(reference))
        torch.testing.assert_close(network.forward_shared(reference, interpreter), expected, atol=1e-5, rtol=0)
        with torch.inference_mode():
            for _ in range(2):  # from nothing, then from memory
                torch.testing.assert_close(network.decide_shared(reference, interpreter), expected.detach(), atol=1e-5, rtol=0)


def test_yesterday_must_be_shown_to_be_read() -> None:
    with pytest.raises(ConfigError, match="previous_history"):
        small_agent(ToyHistory(yesterday="hidden"), ppo_spec(network=small_network("today_and_previous")))


def test_gradients_of_the_shared_path_are_the_expanded_ones() -> None:
    interpreter = ToyHistory()
    network = small_agent(interpreter).model.network
    reference = interpreter.draw(np.random.default_rng(0), 60)
    goal = torch.randn(60, network.output_size, generator=torch.Generator().manual_seed(0))
    gradients = []
    for features in (
        lambda: network.forward_shared(reference, interpreter),
        lambda: network(interpreter.expand(reference)),
        lambda: plain_features(network, interpreter.expand(reference)),
    ):
        network.zero_grad()
        (features() - goal).square().sum().backward()
        gradients.append([p.grad.clone() for p in network.parameters()])
    for shared, expanded, plain in zip(*gradients, strict=True):
        torch.testing.assert_close(expanded, plain, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(shared, plain, atol=1e-5, rtol=1e-4)


def test_each_history_is_encoded_once() -> None:
    interpreter = ToyHistory(num_rows=3)
    network = small_agent(interpreter).model.network
    asked: list[int] = []
    original = interpreter.histories
    interpreter.histories = lambda keys: (asked.append(len(keys)), original(keys))[1]  # type: ignore[method-assign]  # to count
    network.forward_shared(interpreter.draw(np.random.default_rng(0), 64), interpreter)
    assert asked == [3]


def test_the_future_cannot_be_felt() -> None:
    interpreter, changed = ToyHistory(), ToyHistory()
    network = small_agent(interpreter).model.network
    rng = np.random.default_rng(1)
    reference = interpreter.draw(rng, 40)
    now = int(reference["tick"][0])
    reference["tick"][:] = now
    changed.array = interpreter.array.copy()
    changed.array[:, now:] = rng.normal(size=changed.array[:, now:].shape)
    ours, theirs = (network.forward_shared(reference, history) for history in (interpreter, changed))
    assert torch.equal(ours, theirs)
    with torch.inference_mode():
        first, second = (network.decide_shared(reference, history) for history in (interpreter, changed))
    assert torch.equal(first, second)
    changed.array[:, : now + 1] += 1.0  # and the past can
    assert not torch.equal(network.forward_shared(reference, changed), theirs)


def test_memory_and_neighbours_change_no_bit() -> None:
    interpreter = ToyHistory(num_rows=40)
    spec = ppo_spec(network=RecurrentSpec(hidden_size=64, output_size=32))
    lanes = 200
    rng = np.random.default_rng(3)
    reference, randomness = interpreter.draw(rng, lanes), lane_randomness(lanes)
    expected = small_agent(interpreter, spec).training_policy().decide(reference, None, None, randomness)
    remembering = small_agent(interpreter, spec)
    for seed in range(4):  # other things are asked before, in other company
        others = interpreter.draw(np.random.default_rng(seed), lanes)
        remembering.evaluation_policy().decide(others, None, None, randomness)
    order = rng.permutation(lanes)
    moved = remembering.training_policy().decide(shuffled(reference, order), None, None, LaneRandomness(randomness.key[order]))
    for name in ("action", "log_prob", "value"):
        assert (getattr(moved, name) == getattr(expected, name)[order]).all()


def test_what_was_remembered_ends_with_the_parameters() -> None:
    interpreter = ToyHistory()
    agent = small_agent(interpreter)
    reference = interpreter.draw(np.random.default_rng(0), 20)
    agent.training_policy().decide(reference, None, None, lane_randomness(20))
    agent.learn(make_rollout(agent.training_policy(), interpreter.draw))
    decided = agent.training_policy().decide(reference, None, None, lane_randomness(20)).value
    fresh = agent.model(reference, agent._reader)[1].detach().numpy()
    np.testing.assert_allclose(decided, fresh, atol=1e-5)


def test_another_market_is_another_memory() -> None:
    first, second = ToyHistory(), ToyHistory()
    second.array = second.array + 1
    network = small_agent(first).model.network
    reference = first.draw(np.random.default_rng(0), 20)
    with torch.inference_mode():
        for interpreter in (first, second, first):
            expected = network.forward_shared(reference, interpreter)
            torch.testing.assert_close(network.decide_shared(reference, interpreter), expected, atol=1e-5, rtol=0)


def test_memory_is_bounded_and_does_not_travel() -> None:
    from rlcore.execution.learning.encoding_memory import EncodingMemory

    interpreter = ToyHistory()
    agent = small_agent(interpreter)
    memory = EncodingMemory(limit=10)
    encoder = agent.model.network.market
    with torch.inference_mode():
        for seed in range(5):
            reference = interpreter.draw(np.random.default_rng(seed), 8)
            states = memory.states_at(encoder, interpreter, reference["row"], reference["tick"])
            assert len(memory._states) <= 10 + 8
            history = torch.from_numpy(np.pad(interpreter.array[reference["row"]], ((0, 0), (1, 0), (0, 0))))
            outputs, _ = encoder.gru(encoder.embed(history).transpose(0, 1))
            plain = outputs[torch.from_numpy(reference["tick"]), torch.arange(8)]
            np.testing.assert_allclose(states, plain.numpy(), atol=1e-5)
    policy = agent.training_policy()
    policy.decide(interpreter.draw(np.random.default_rng(0), 30), None, None, lane_randomness(30))
    travelled = pickle.loads(pickle.dumps(policy))
    assert not travelled._model.network._memory._states


@pytest.mark.parametrize("make", [ppo_spec, dqn_spec])
@pytest.mark.parametrize("days", ["today", "today_and_previous"])
def test_agents_learn_with_it(make: Any, days: str) -> None:
    interpreter = ToyHistory(yesterday="shown")
    agent = small_agent(interpreter, make(network=small_network(days)))
    for seed in range(3):
        figures = agent.learn(make_rollout(agent.training_policy(), interpreter.draw, seed=seed))
        assert np.isfinite(list(figures.values())).all()


def test_states_at_reads_any_positions_in_any_order() -> None:
    torch.manual_seed(0)
    encoder = CausalEncoder(3, 5)
    inputs = torch.randn(4, 9, 3)
    sequence = torch.tensor([2, 0, 1, 1, 3, 0, 2, 1])
    position = torch.tensor([8, 0, 3, 7, 2, 5, 0, 3])
    outputs, _ = encoder.gru(encoder.embed(inputs).transpose(0, 1))
    torch.testing.assert_close(encoder.states_at(inputs, sequence, position), outputs[position, sequence], atol=1e-6, rtol=1e-5)
