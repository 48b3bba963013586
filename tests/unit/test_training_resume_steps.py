"""The resume law where training is counted in steps: lanes in mid-episode, every kind of agent, any number of workers."""

import copy
import itertools

import numpy as np
import pytest

from rlcore.agents import builtin_agents
from rlcore.agents.build_agent import build_agent
from rlcore.contracts.policy import Decision
from rlcore.contracts.seeds import SequenceSeedSet
from rlcore.environment.backends import InlineBackend
from rlcore.environment.looped import looped_parts
from rlcore.foundation.errors import CheckpointError
from rlcore.foundation.registry import Registry
from rlcore.training.checkpoint import read_checkpoint
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.trainer import Trainer
from rlcore.training.vessel import TrainingVessel
from tests.training_agents import CHOOSING, PUSHING, agent_for
from tests.training_toy import (
    HOVER_STARTS,
    HOVER_STEPS,
    Hover,
    HoverChoice,
    HoverObservation,
    HoverPush,
    LogitPolicy,
    Nearness,
    ToyAgent,
    assert_same,
    hover_parts,
    hover_vessel,
    toy_vessel,
    walk_parts,
)

STEPS = {"episodes_per_iteration": None, "steps_per_iteration": 24, "num_lanes": 2, "num_groups": 3}


class RememberingPolicy(LogitPolicy):
    """What it does depends on all that the episode has shown."""

    def initial_internal_state(self, num_lanes):
        return {"seen": np.zeros((num_lanes, 2), np.float32)}

    def decide(self, reference, internal_state, mask, randomness):
        seen = internal_state["seen"] + reference
        return Decision(super().decide(seen, None, mask, randomness).action, {"seen": seen})


class Remembering(ToyAgent):
    def training_policy(self):
        return RememberingPolicy(self.layer, is_greedy=False)

    def evaluation_policy(self):
        return RememberingPolicy(self.layer, is_greedy=True)


def hover(name):
    """Return a fresh vessel of the task that never ends, with this agent."""
    if name in ("toy", "remembering"):
        return hover_vessel({"toy": ToyAgent, "remembering": Remembering}[name]())
    action = HoverPush() if name in PUSHING else None
    return hover_vessel(agent_for(name, hover_parts(action)), action)


def walk(name):
    """Return a fresh vessel of the task whose episodes end."""
    agent = Remembering() if name == "remembering" else agent_for(name, walk_parts())
    return toy_vessel(agent, **STEPS)


def fit(folder, vessel, max_iters, *, val_every_n_iters=2, **settings):
    """Begin, or go on from the newest checkpoint; returns the result and the newest checkpoint's content."""
    writer = CheckpointWriter(folder)
    newest = folder / "latest.ckpt"
    trainer = Trainer(max_iters=max_iters, val_every_n_iters=val_every_n_iters, callbacks=[writer], **settings)
    result = trainer.fit(vessel, newest if newest.exists() else None)
    return result, read_checkpoint(newest)


def steps_in_progress(content):
    return np.concatenate([group["step"] for group in content["vessel"]["lanes"]])


def test_every_kind_of_agent_is_tested_here():
    registry = Registry()
    builtin_agents.register(registry)
    assert {spec.kind for spec in (CHOOSING | PUSHING).values()} == set(registry.kinds("agent"))


@pytest.mark.parametrize("name", ["toy", "remembering", *CHOOSING, *PUSHING])
def test_a_continued_training_ends_like_one_that_was_never_interrupted(tmp_path, name):
    whole, end = fit(tmp_path / "whole", hover(name), 6)
    _, middle = fit(tmp_path / "parts", hover(name), 3)
    assert steps_in_progress(middle).min() > 0  # all lanes are in mid-episode
    parts, same_end = fit(tmp_path / "parts", hover(name), 6)
    assert_same(end, same_end)
    assert_same(whole.metrics, parts.metrics)
    assert (parts.num_steps, parts.num_episodes, parts.is_resume_exact) == (180, whole.num_episodes, True)
    with pytest.raises(AssertionError):
        assert_same(middle["vessel"]["agent"], end["vessel"]["agent"])  # it did learn


@pytest.mark.parametrize("name", ["remembering", "ppo", "dqn"])
def test_episodes_that_end_within_iterations_go_on_too(tmp_path, name):
    whole, end = fit(tmp_path / "whole", walk(name), 6)
    fit(tmp_path / "parts", walk(name), 3)
    parts, same_end = fit(tmp_path / "parts", walk(name), 6)
    assert_same(end, same_end)
    assert whole.num_episodes == parts.num_episodes > 20


@pytest.mark.parametrize(("name", "workers_by_iteration"), [("ppo", {2: 1, 4: 2, 6: 3}), ("dqn", {3: 2, 6: 1})])
def test_any_number_of_worker_processes_goes_on_from_any_other(tmp_path, name, workers_by_iteration):
    whole, end = fit(tmp_path / "whole", hover(name), 6)
    for iteration, workers in workers_by_iteration.items():
        parts, same_end = fit(tmp_path / "parts", hover(name), iteration, finite_env_type="subproc", concurrency=workers)
    assert_same(end, same_end)
    assert_same(whole.metrics, parts.metrics)


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_evaluation_changes_nothing_in_training(tmp_path, name):
    """T34: lanes in mid-episode, statistics, exploration and replay stay where training put them."""
    states = []
    for every in (None, 1):
        vessel = hover(name)
        trainer = Trainer(max_iters=3, val_every_n_iters=every)
        trainer.fit(vessel)
        if every is not None:
            trainer.test(vessel)
        states.append(vessel.state_dict())
    assert_same(states[0], states[1])


def forgetful(vessel, *path):
    """Make a vessel load everything but one entry, which stays as it was before."""
    load = vessel.load_state_dict

    def load_the_rest(state):
        state = copy.deepcopy(state)
        fresh = vessel.state_dict()
        into, source = state, fresh
        for key in path[:-1]:
            into, source = into[key], source[key]
        into[path[-1]] = source[path[-1]]
        load(state)

    vessel.load_state_dict = load_the_rest
    return vessel


@pytest.mark.parametrize("name", ["toy", *CHOOSING, *PUSHING])
def test_every_part_of_an_agents_state_matters(tmp_path, name):
    """Parameters, optimisers, schedules, lagged networks and their phase, statistics, memories, counters: drop one, and the law
    breaks. So the law's tests see each of them."""
    _, end = fit(tmp_path / "whole", hover(name), 6, val_every_n_iters=None)
    _, middle = fit(tmp_path / "parts", hover(name), 3, val_every_n_iters=None)
    checkpoint = (tmp_path / "parts/latest.ckpt").resolve()
    for key in middle["vessel"]["agent"].keys() - {"kind"}:
        vessel = forgetful(hover(name), "agent", key)
        try:
            Trainer(max_iters=6).fit(vessel, checkpoint)
        except Exception:  # what remains does not fit together: noticed, too
            continue
        with pytest.raises(AssertionError):
            assert_same(vessel.state_dict()["agent"], end["vessel"]["agent"])
            print("not noticed:", key)


FORGOTTEN = {
    "visit": lambda value: value + 1,
    "next_position": lambda value: value + 1,
    "episode_return": lambda value: value + 1,
    "component_sums": lambda value: {name: total + 1 for name, total in value.items()},
    "internal_state": lambda value: {"seen": value["seen"] + 1},
}


@pytest.mark.parametrize("key", FORGOTTEN)
def test_every_part_of_the_lanes_matters(tmp_path, key):
    whole, end = fit(tmp_path / "whole", hover("remembering"), 5)  # in which the episodes end that lay in the checkpoint
    fit(tmp_path / "parts", hover("remembering"), 3)
    vessel = hover("remembering")
    load = vessel.load_state_dict

    def load_with_a_change(state):
        group = state["lanes"][1]
        group[key] = FORGOTTEN[key](group[key])
        load(state)

    vessel.load_state_dict = load_with_a_change
    parts, other_end = fit(tmp_path / "parts", vessel, 5)
    with pytest.raises(AssertionError):
        assert_same((end, whole.metrics), (other_end, parts.metrics))
        print("not noticed:", key)


def test_what_belongs_to_the_lanes_is_held_to_the_checkpoint(tmp_path):
    writer = CheckpointWriter(tmp_path, monitor=None)
    Trainer(max_iters=1, callbacks=[writer]).fit(hover("toy"))
    for changes, message in (
        ({"num_groups": 1, "num_lanes": 6}, r"training\.num_groups: 3 there, 1 here; training\.num_lanes: 2 there, 6 here"),
        ({"steps_per_iteration": 60}, r"training\.steps_per_iteration: 30 there, 60 here"),
        (
            {"steps_per_iteration": None, "num_groups": 1, "episodes_per_iteration": 4},
            r"training\.episodes_per_iteration: '\(absent\)' there, 4 here; training\.num_groups: 3 there, '\(absent\)' here",
        ),
    ):
        with pytest.raises(CheckpointError, match=message):
            Trainer(max_iters=2).fit(hover_vessel(ToyAgent(), **changes), writer.latest_path)


def test_a_vessel_that_goes_on_twice_from_one_checkpoint_does_the_same_twice(tmp_path):
    """Replaying lanes changes nothing in the checkpoint's content, nor in what the vessel was before."""
    writer = CheckpointWriter(tmp_path, monitor=None)
    vessel = hover("dqn")
    Trainer(max_iters=3, callbacks=[writer]).fit(vessel)
    ends = []
    for _ in range(2):
        Trainer(max_iters=5).fit(vessel, writer.latest_path)
        ends.append(vessel.state_dict())
    assert_same(ends[0], ends[1])


def test_a_training_can_be_continued_in_memory():
    """A second ``fit`` without a checkpoint begins a new count, and goes on with the lanes as they are."""
    whole, parts = hover("toy"), hover("toy")
    Trainer(max_iters=4).fit(whole)
    for _ in range(2):
        Trainer(max_iters=2).fit(parts)
    assert_same(whole.state_dict(), parts.state_dict())


@pytest.mark.parametrize("name", sorted(CHOOSING | PUSHING))
def test_another_hyper_parameter_is_refused_by_its_name(tmp_path, name):
    writer = CheckpointWriter(tmp_path, monitor=None)
    Trainer(max_iters=1, callbacks=[writer]).fit(hover(name))
    spec = (CHOOSING | PUSHING)[name].model_copy(update={"learning_rate": 0.5})
    parts = hover_parts(HoverPush() if name in PUSHING else None)
    spaces = parts.state_interpreter.observation_space, parts.action_interpreter.action_space
    agent = build_agent(spec, *spaces, parts.state_interpreter, root_seed=3, device="cpu")
    other = hover_vessel(agent, HoverPush() if name in PUSHING else None)
    with pytest.raises(CheckpointError, match=r"training\.agent\.learning_rate: 0\.01 there, 0\.5 here"):
        Trainer(max_iters=2).fit(other, writer.latest_path)


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("seed_id", lambda value: (value + 1) % 5),
        ("actions", lambda value: (value + 1) % 3),
        ("shown", lambda value: [leaf + 0.1 for leaf in value]),
    ],
)
def test_lanes_that_replay_to_another_place_are_an_error(tmp_path, key, change):
    fit(tmp_path, hover("toy"), 3)
    vessel = hover("toy")
    load = vessel.load_state_dict

    def load_with_a_change(state):
        state["lanes"][1][key] = change(state["lanes"][1][key])
        load(state)

    vessel.load_state_dict = load_with_a_change
    with pytest.raises(CheckpointError, match="must show what it showed before the checkpoint, did not"):
        fit(tmp_path, vessel, 5)


@pytest.mark.parametrize(("change", "is_said"), [(0.0, False), (1e-7, True)])
def test_a_replay_that_differs_in_its_last_digits_goes_on_and_says_so(tmp_path, caplog, change, is_said):
    fit(tmp_path, hover("toy"), 3)
    vessel = hover("toy")
    load = vessel.load_state_dict

    def load_with_a_change(state):
        shown = state["lanes"][1]["shown"]
        state["lanes"][1]["shown"] = [leaf * (1 + change) for leaf in shown]
        load(state)

    vessel.load_state_dict = load_with_a_change
    result, end = fit(tmp_path, vessel, 5)
    assert ("not to the bit" in caplog.text) == is_said
    assert result.is_resume_exact == end["trainer"]["is_resume_exact"] == (not is_said)
    assert fit(tmp_path, hover("toy"), 6)[0].is_resume_exact == (not is_said)  # once inexact, always


class Breaks(ToyAgent):
    """Cannot act when it first goes on."""

    has_broken = False

    def training_policy(self):
        policy = super().training_policy()
        if not self.has_broken:
            self.has_broken = True
            policy.decide = lambda *arguments: 1 / 0
        return policy


def test_an_inexact_replay_is_still_one_after_a_failure_in_between(tmp_path):
    fit(tmp_path, hover("toy"), 3)
    vessel = hover_vessel(Breaks())
    state = read_checkpoint(tmp_path / "latest.ckpt")["vessel"]
    state["lanes"][1]["shown"] = [leaf * (1 + 1e-7) for leaf in state["lanes"][1]["shown"]]
    vessel.load_state_dict(state)
    with InlineBackend() as backend:
        with pytest.raises(ZeroDivisionError):
            vessel.collect(backend)
        assert not vessel.collect(backend).is_replay_exact
        vessel.load_state_dict(read_checkpoint(tmp_path / "latest.ckpt")["vessel"])
        assert vessel.collect(backend).is_replay_exact


class Gusty(Hover):
    """Draws from elsewhere than its seed."""

    gusts = iter(())

    def step(self, push):
        super().step(push)
        self.place += next(self.gusts)


class Failing(Gusty):
    """Ends where the wind has gone too far."""

    def done(self):
        return abs(self.place) > 15.0


@pytest.mark.parametrize("simulator", [Gusty, Failing])
@pytest.mark.parametrize(("gust", "is_noticed"), [(0.0, False), (0.5, True), (30.0, True)])
def test_a_simulator_that_is_not_reproducible_is_named_with_its_seed(tmp_path, simulator, gust, is_noticed):
    def run(max_iters, gust, resume_from=None):
        simulator.gusts = itertools.repeat(gust)
        parts = looped_parts(
            simulator, HoverObservation(), HoverChoice(), Nearness(), max_steps=HOVER_STEPS, at_max_steps="truncate"
        )
        counts = {"steps_per_iteration": 15, "num_lanes": 1, "num_groups": 3, "root_seed": 7}
        vessel = TrainingVessel(parts, ToyAgent(), SequenceSeedSet(HOVER_STARTS), **counts)
        return Trainer(max_iters=max_iters, callbacks=[CheckpointWriter(tmp_path, monitor=None)]).fit(vessel, resume_from)

    run(2, 0.0)
    if not is_noticed:
        assert run(3, gust, tmp_path / "latest.ckpt").is_resume_exact
        return
    message = r"episode of seed \d, visit \d, replayed to step \d must .* simulator is not reproducible from its seed and actions"
    with pytest.raises(CheckpointError, match=message):
        run(3, gust, tmp_path / "latest.ckpt")
