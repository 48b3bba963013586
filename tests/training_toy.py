"""A task with a known best policy, and a small agent with every kind of state: for the tests of the trainer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from rlcore.agents.agent import Agent
from rlcore.contracts.interpreters import ActionInterpreter, LaneActionInterpreter, LaneStateInterpreter, StateInterpreter
from rlcore.contracts.policy import Decision, Policy
from rlcore.contracts.reward import LaneReward, Reward, WeightedReward
from rlcore.contracts.seeds import SeedSet, SequenceSeedSet
from rlcore.contracts.simulator import LaneSimulator, LaneStep, Simulator
from rlcore.environment.looped import looped_parts
from rlcore.environment.parts import EnvironmentParts
from rlcore.foundation.fingerprints import fingerprint_arrays
from rlcore.foundation.random_streams import key_seed
from rlcore.training.callbacks import Callback
from rlcore.training.vessel import TrainingVessel

torch.set_num_threads(1)
MAX_STEPS = 6


@dataclass(frozen=True, slots=True)
class WalkState:
    position: np.ndarray  # (lanes,) where zero is home
    step: np.ndarray  # (lanes,)
    moves: np.ndarray  # (lanes,) steps that were not waits


class WalkHome(LaneSimulator):
    """Start some places from home; move by -1, 0 or +1; the episode ends at home, or is cut after ``MAX_STEPS``."""

    max_steps = MAX_STEPS

    def start(self, seeds):
        zero = np.zeros(len(seeds))
        return WalkState(seeds.astype(float), zero, zero)

    def view(self, state):
        return state

    def step(self, state, command):
        after = WalkState(state.position + command, state.step + 1, state.moves + (command != 0))
        terminated = after.position == 0
        return LaneStep(after, (state, after), terminated, ~terminated & (after.step >= MAX_STEPS))

    def metrics(self, state):
        is_home = state.position == 0
        return {"steps_home": np.where(is_home, state.step, np.nan), "moves": state.moves}


class WalkObservation(LaneStateInterpreter):
    observation_space = spaces.Box(-20, 20, (2,), np.float32)

    def interpret(self, view, status):
        return np.stack([view.position, view.step], axis=-1).astype(np.float32)


class WalkAction(LaneActionInterpreter):
    action_space = spaces.Discrete(3)

    def interpret(self, view, action, status):
        return action.astype(float) - 1.0


class Progress(LaneReward):
    def reward(self, outcome, status):
        before, after = outcome
        return np.abs(before.position) - np.abs(after.position)


class Effort(LaneReward):
    def reward(self, outcome, status):
        before, after = outcome
        return after.moves - before.moves


def walk_parts() -> EnvironmentParts:
    reward = WeightedReward({"progress": (Progress(), 1.0), "effort": (Effort(), -0.125)})
    return EnvironmentParts(WalkHome(), WalkObservation(), WalkAction(), reward)


class WalkSeeds(SeedSet):
    """Starting places; remembers which were ever taken."""

    def __init__(self, starts) -> None:
        self._starts = np.asarray(starts, np.int64)
        self.taken: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def take(self, seed_ids):
        self.taken += seed_ids.tolist()
        return self._starts[seed_ids]

    @property
    def fingerprint(self) -> str:
        return fingerprint_arrays({"starts": self._starts})

    def describe(self, seed_ids):
        return {"start": self._starts[seed_ids]}


class LogitPolicy(Policy):
    """Softmax over a linear layer's logits; greedy, or sampled from the numbers it is handed."""

    def __init__(self, layer: torch.nn.Linear, is_greedy: bool) -> None:
        self._layer, self._is_greedy = layer, is_greedy

    def decide(self, reference, internal_state, mask, randomness):
        with torch.no_grad():
            logits = self._layer(torch.from_numpy(reference)).numpy()
        if self._is_greedy:
            return Decision(logits.argmax(-1))
        gumbel = -np.log(-np.log(randomness.uniform("action", 3) * 0.999 + 0.0005))
        return Decision((logits + gumbel).argmax(-1))


class ToyAgent(Agent):
    """REINFORCE on this rollout and on rows drawn from a memory: parameters, optimiser, memory, counter."""

    def __init__(self, root_seed: int = 0, before_learning: Callable[[ToyAgent], None] = lambda agent: None) -> None:
        self.before_learning = before_learning
        self.layer = torch.nn.Linear(2, 3)
        with torch.no_grad():
            generator = torch.Generator().manual_seed(root_seed)
            self.layer.weight.copy_(0.1 * torch.randn(3, 2, generator=generator))
            self.layer.bias.zero_()
        self.optimiser = torch.optim.Adam(self.layer.parameters(), lr=0.05)
        self.memory = np.zeros((0, 4))
        self.num_updates = 0
        self.root_seed = root_seed

    def training_policy(self):
        return LogitPolicy(self.layer, is_greedy=False)

    def evaluation_policy(self):
        return LogitPolicy(self.layer, is_greedy=True)

    def learn(self, rollout):
        self.before_learning(self)
        to_go = np.cumsum((rollout.reward * rollout.is_alive)[::-1], axis=0)[::-1]
        alive = rollout.is_alive
        rows = np.concatenate([rollout.reference[alive], rollout.action[alive, None], to_go[alive, None]], axis=1)
        self.memory = np.concatenate([self.memory, rows])[-200:]
        drawn = np.random.default_rng(key_seed(self.root_seed, "update", self.num_updates)).integers(len(self.memory), size=32)
        batch = torch.as_tensor(np.concatenate([rows, self.memory[drawn]]), dtype=torch.float32)
        log_prob = torch.log_softmax(self.layer(batch[:, :2]), -1).gather(1, batch[:, 2:3].long())[:, 0]
        loss = -(log_prob * (batch[:, 3] - batch[:, 3].mean())).mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        self.num_updates += 1
        return {"loss": float(loss.detach())}

    def state_dict(self) -> dict[str, Any]:
        return {
            "layer": self.layer.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "memory": self.memory,
            "num_updates": self.num_updates,
        }

    def load_state_dict(self, state):
        self.layer.load_state_dict(state["layer"])
        self.optimiser.load_state_dict(copy.deepcopy(state["optimiser"]))
        self.memory = state["memory"].copy()
        self.num_updates = state["num_updates"]

    def save_policy(self, path: Path) -> None:
        torch.save(self.layer.state_dict(), path)


TRAIN_STARTS = [1, -2, 3, -4, 5, 2, -1, 4, -3, 6, -6]


def toy_vessel(agent: Agent | None = None, **changes: Any) -> TrainingVessel:
    settings: dict[str, Any] = {"episodes_per_iteration": 8, "num_lanes": 4, "root_seed": 7, **changes}
    seeds = {
        "train_seeds": WalkSeeds(TRAIN_STARTS),
        "validation_seeds": WalkSeeds([1, -1, 2, -5, 3]),
        "test_seeds": WalkSeeds([2, -2, 4]),
    }
    seeds |= {name: settings.pop(name) for name in tuple(seeds) if name in settings}
    return TrainingVessel(walk_parts(), agent or ToyAgent(), **seeds, **settings)


class Hover(Simulator):
    """A task that never ends: a point drifts about, is pushed, and earns most near home. Written for one episode."""

    def __init__(self, initial):
        self.initial, self.place, self.time = float(initial), float(initial), 0

    def step(self, push):
        self.time += 1
        wind = np.sin(37.0 * self.initial + 11.0 * self.time)
        self.place = 0.9 * self.place + 0.5 * push + 0.3 * wind

    def get_state(self):
        return self.place

    def done(self):
        return False


class HoverObservation(StateInterpreter):
    observation_space = spaces.Box(-20, 20, (2,), np.float32)

    def interpret(self, state, status):
        return np.array([state, abs(state)], np.float32)


class HoverChoice(ActionInterpreter):
    action_space = spaces.Discrete(3)

    def interpret(self, state, action, status):
        return float(action) - 1.0


class HoverPush(ActionInterpreter):
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def interpret(self, state, action, status):
        return float(action[0])


class Nearness(Reward):
    def reward(self, outcome, status):
        return -abs(outcome)


HOVER_STEPS = 7
HOVER_STARTS = [0.5, -1.0, 2.0, -2.5, 1.25]


def hover_parts(action: ActionInterpreter | None = None) -> EnvironmentParts:
    parts = HoverObservation(), action or HoverChoice(), Nearness()
    return looped_parts(Hover, *parts, max_steps=HOVER_STEPS, at_max_steps="truncate")


def hover_vessel(agent: Agent, action: ActionInterpreter | None = None, **changes: Any) -> TrainingVessel:
    """A continuing task in steps; 5 steps of each lane an iteration, so that every iteration ends in mid-episode."""
    settings: dict[str, Any] = {"steps_per_iteration": 30, "num_lanes": 2, "num_groups": 3, "root_seed": 7, **changes}
    seeds = SequenceSeedSet(HOVER_STARTS), SequenceSeedSet([0.1, -0.4]), SequenceSeedSet([1.5])
    return TrainingVessel(hover_parts(action), agent, *seeds, **settings)


def assert_same(one: Any, other: Any, where: str = "state") -> None:
    """Two trees of plain data, arrays and tensors have the same bits."""
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert list(one) == list(other), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for index, pair in enumerate(zip(one, other, strict=True)):
            assert_same(*pair, f"{where}[{index}]")
    elif isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype and one.shape == other.shape, where
        assert torch.equal(_bits(one), _bits(other)), where
    elif isinstance(one, np.ndarray | np.generic):
        assert one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes(), where
    else:
        assert one == other or (one != one and other != other), where


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


HOOKS = [f"on_{what}_{edge}" for what in ("fit", "iteration", "train", "validate", "test") for edge in ("start", "end")]


class Spy(Callback):
    """Notes each hook, and which iteration it saw."""

    def __init__(self, name=""):
        super().__init__(name)
        self.seen = []

    def __getattribute__(self, name):
        if name in HOOKS:
            return lambda trainer, vessel: self.seen.append((name.removeprefix("on_"), trainer.iteration))
        return super().__getattribute__(name)
