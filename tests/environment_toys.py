"""A small task in both forms, lanes and one episode: the laws hold on it. Tests plant violations by changing one part."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from gymnasium import spaces

from rlcore.contracts import (
    ActionInterpreter,
    LaneActionInterpreter,
    LaneReward,
    LaneSimulator,
    LaneStateInterpreter,
    LaneStep,
    Reward,
    SeedSet,
    Simulator,
    StateInterpreter,
    WeightedReward,
)
from rlcore.environment.looped import looped_parts
from rlcore.environment.parts import EnvironmentParts
from rlcore.foundation.fingerprints import fingerprint_arrays

NUM_PRICES = 24
MAX_STEPS = 6
SPENDING = np.array([0.0, 0.125, 0.5])


def random_world(root: int, num_seeds: int):
    """Return seeds (n, 1 + prices): a budget, then prices. A budget is spent at each step's price."""
    generator = np.random.default_rng(root)
    budgets = generator.integers(1, 9, size=(num_seeds, 1)).astype(float)
    return np.concatenate([budgets, np.exp(generator.normal(size=(num_seeds, NUM_PRICES)))], axis=1)


class WorldSeeds(SeedSet):
    def __init__(self, world) -> None:
        self.world = world

    def __len__(self) -> int:
        return len(self.world)

    def take(self, seed_ids):
        return self.world[seed_ids]

    @property
    def fingerprint(self) -> str:
        return fingerprint_arrays({"world": self.world})

    def describe(self, seed_ids):
        return {"budget": self.world[seed_ids, 0]}


@dataclass(frozen=True, slots=True)
class SpendState:
    budget: np.ndarray  # (lanes,)
    prices: np.ndarray  # (lanes, prices), the future included
    left: np.ndarray  # (lanes,)
    paid: np.ndarray  # (lanes,)
    step: np.ndarray  # (lanes,)


@dataclass(frozen=True, slots=True)
class SpendView:
    left: np.ndarray
    step: np.ndarray
    past: np.ndarray  # (lanes, prices) zero at and after now


@dataclass(frozen=True, slots=True)
class SpendOutcome:
    spent: np.ndarray
    price: np.ndarray
    window: np.ndarray  # (lanes, prices) the whole day, hindsight


def prices_of_step(step):
    """Return the columns that are seen during a step: four prices each."""
    return np.arange(NUM_PRICES) // (NUM_PRICES // MAX_STEPS) == np.asarray(step)[..., None]


class Spend(LaneSimulator):
    """Spend a fraction of the budget each step; ends when nothing is left, is cut after ``MAX_STEPS``."""

    max_steps = MAX_STEPS

    def start(self, seeds):
        zero = np.zeros(len(seeds))
        return SpendState(seeds[:, 0], seeds[:, 1:], seeds[:, 0], zero, zero.astype(np.int64))

    def view(self, state):
        is_past = np.arange(NUM_PRICES) // (NUM_PRICES // MAX_STEPS) < state.step[:, None]
        return SpendView(state.left / state.budget, state.step, np.where(is_past, state.prices, 0.0))

    def step(self, state, command):
        spent = np.minimum(command * state.budget, state.left)
        price = np.where(prices_of_step(state.step), state.prices, 0.0).sum(axis=-1)
        after = replace(state, left=state.left - spent, paid=state.paid + spent, step=state.step + 1)
        terminated = after.left <= 0
        outcome = SpendOutcome(spent / state.budget, price, state.prices)
        return LaneStep(after, outcome, terminated, ~terminated & (after.step >= MAX_STEPS))

    def metrics(self, state):
        return {"left_fraction": state.left / state.budget}


class SpendObservation(LaneStateInterpreter):
    observation_space = spaces.Dict(
        {
            "left": spaces.Box(0.0, 1.0, (), np.float64),
            "step": spaces.Discrete(MAX_STEPS + 1),
            "past": spaces.Box(0.0, np.inf, (NUM_PRICES,), np.float32),
        }
    )

    def interpret(self, view, status):
        return {"left": view.left, "step": view.step, "past": view.past.astype(np.float32)}


class SpendAction(LaneActionInterpreter):
    action_space = spaces.Discrete(len(SPENDING))

    def interpret(self, view, action, status):
        return SPENDING[action]


class Bargain(LaneReward):
    """Spent at less than the day's mean price."""

    def reward(self, outcome, status):
        return outcome.spent * (outcome.window.mean(axis=-1) - outcome.price)


class Haste(LaneReward):
    def reward(self, outcome, status):
        return outcome.spent**2


def spend_parts(**changed) -> EnvironmentParts:
    parts = {
        "simulator": Spend(),
        "state_interpreter": SpendObservation(),
        "action_interpreter": SpendAction(),
        "reward": WeightedReward({"bargain": (Bargain(), 1.5), "haste": (Haste(), -0.25)}),
    }
    return EnvironmentParts(**{**parts, **changed})


def spend_seeds(num_seeds: int = 10, root: int = 0) -> WorldSeeds:
    return WorldSeeds(random_world(root, num_seeds))


def spend_balance(lanes, transition):
    """What is left and what was paid make up the budget; nothing is paid back."""
    state = lanes.state
    return {
        "left + paid - budget": (state.left + state.paid - state.budget) / state.budget,
        "paid back": np.minimum(transition.outcome.spent, 0.0),
    }


def spend_perturbed(world, change=7.0):
    """Return perturb_future for a world: every price at and after ``now`` of that seed is multiplied."""

    def perturb(seed_id, now):
        other = world.copy()
        other[seed_id, 1 + now * (NUM_PRICES // MAX_STEPS) :] *= change
        return spend_parts(), WorldSeeds(other)

    return perturb


# The same task as its user would write it for one episode.


class SpendOnce(Simulator):
    def __init__(self, initial) -> None:
        self.budget, self.prices = float(initial[0]), initial[1:]
        self.left, self.now = self.budget, 0
        self.spent = self.price = 0.0

    def step(self, action):
        self.spent = min(action * self.budget, self.left) / self.budget
        self.price = np.where(prices_of_step(self.now), self.prices, 0.0).sum()
        self.left -= self.spent * self.budget
        self.now += 1

    def get_state(self):
        past = np.where(np.arange(NUM_PRICES) < self.now * (NUM_PRICES // MAX_STEPS), self.prices, 0.0)
        return {"left": self.left / self.budget, "step": self.now, "past": past.astype(np.float32)}

    def done(self):
        return self.left <= 0

    def truncated(self):
        return self.left > 0 and self.now >= MAX_STEPS

    def outcome(self):
        return self.spent, self.price, self.prices

    def metrics(self):
        return {"left_fraction": self.left / self.budget}


class SpendOnceObservation(StateInterpreter):
    observation_space = SpendObservation.observation_space

    def interpret(self, state, status):
        return state


class SpendOnceAction(ActionInterpreter):
    action_space = SpendAction.action_space

    def interpret(self, state, action, status):
        return SPENDING[action]


class BargainOnce(Reward):
    def reward(self, outcome, status):
        spent, price, window = outcome
        return spent * (window.mean() - price)


class HasteOnce(Reward):
    def reward(self, outcome, status):
        return outcome[0] ** 2


def looped_spend_parts(simulator_fn=SpendOnce, **changed) -> EnvironmentParts:
    parts = {
        "state_interpreter": SpendOnceObservation(),
        "action_interpreter": SpendOnceAction(),
        "reward": {"bargain": (BargainOnce(), 1.5), "haste": (HasteOnce(), -0.25)},
        "max_steps": MAX_STEPS,
    }
    return looped_parts(simulator_fn, **{**parts, **changed})


class CrowdedSpend(Spend):
    """Planted: lanes compete for the same price."""

    def step(self, state, command):
        stepped = super().step(state, command)
        crowd = stepped.outcome.spent.sum()
        return replace(stepped, outcome=replace(stepped.outcome, price=stepped.outcome.price * (1 + crowd)))
