"""Specs refuse what makes no sense; flattening keeps everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from pydantic import ValidationError

from rlcore.agents.builtin_agents import register
from rlcore.agents.observation_features import flatten_observation, num_features
from rlcore.agents.off_policy_specs import DiscreteSACSpec, DQNSpec, ExplorationSpec, PrioritySpec, SACSpec
from rlcore.agents.on_policy_specs import A2CSpec, PPOSpec
from rlcore.agents.specs import MLPSpec
from rlcore.execution.learning.specs import RecurrentSpec
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.registry import Registry
from tests.agents_toy import discrete_sac_spec, dqn_spec, make_agent, ppo_spec, sac_spec


@pytest.mark.parametrize(
    ("make", "changes", "where"),
    [
        (ppo_spec, {"learning_rat": 1e-3}, "learning_rat"),
        (ppo_spec, {"learning_rate": 0.0}, "learning_rate"),
        (ppo_spec, {"discount": 1.1}, "discount"),
        (ppo_spec, {"gae_lambda": -0.1}, "gae_lambda"),
        (ppo_spec, {"advantage_scaling": "sometimes"}, "advantage_scaling"),
        (ppo_spec, {"batch_size": 0}, "batch_size"),
        (ppo_spec, {"learning_rate": float("nan")}, "learning_rate"),
        (dqn_spec, {"memory_size": 5}, "memory_size"),
        (sac_spec, {"memory_size": 5}, "memory_size"),
        (sac_spec, {"target_update_rate": 0.0}, "target_update_rate"),
        (sac_spec, {"critic_sizes": ()}, "critic_sizes"),
        (discrete_sac_spec, {"target_entropy_fraction": 1.5}, "target_entropy_fraction"),
        (dqn_spec, {"priorities": {"exponent": 0.6}}, "num_gradient_steps"),
        (dqn_spec, {"exploration": {"initial": 2.0, "final": 0.1, "num_transitions": 5}}, "initial"),
        (lambda **changes: MLPSpec(**changes), {"sizes": ()}, "sizes"),
    ],
)
def test_nonsense_is_refused(make: Any, changes: dict[str, Any], where: str) -> None:
    with pytest.raises(ValidationError, match=where):
        make(**changes)


@pytest.mark.parametrize("field", ["learning_rate", "discount", "batch_size", "network"])
def test_decisions_have_no_default(field: str) -> None:
    for spec in (ppo_spec(), dqn_spec(), sac_spec(), discrete_sac_spec()):
        with pytest.raises(ValidationError, match=field):
            type(spec)(**{name: value for name, value in spec if name != field})


def test_specs_are_frozen_and_survive_as_plain_data() -> None:
    spec = ppo_spec(network=RecurrentSpec(hidden_size=3))
    with pytest.raises(ValidationError, match="frozen"):
        spec.discount = 0.5  # type: ignore[misc]  # that is the point
    plain = spec.model_dump(mode="json")
    assert plain["network"] == {"kind": "recurrent", "hidden_size": 3, "output_size": 32, "days": "today"}
    assert PPOSpec(**(plain | {"network": RecurrentSpec(**plain["network"])})) == spec


def test_every_field_is_documented() -> None:
    for kind in (PPOSpec, A2CSpec, DQNSpec, SACSpec, DiscreteSACSpec, ExplorationSpec, PrioritySpec, MLPSpec, RecurrentSpec):
        for name, field in kind.model_fields.items():
            assert name == "kind" or field.description, f"{kind.__name__}.{name}"


def test_kinds_are_registered() -> None:
    registry = Registry()
    register(registry)
    assert registry["agent", "ppo"] is PPOSpec
    assert registry["agent", "a2c"] is A2CSpec
    assert registry["agent", "dqn"] is DQNSpec
    assert registry["agent", "sac"] is SACSpec
    assert registry["agent", "discrete_sac"] is DiscreteSACSpec
    assert registry["network", "mlp"] is MLPSpec


def test_flattening_keeps_numbers_and_makes_choices_one_hot() -> None:
    space = spaces.Dict(
        {
            "a": spaces.Discrete(3, start=1),
            "b": spaces.Tuple([spaces.Box(-9, 9, (2, 2), np.float64), spaces.MultiBinary(2)]),
            "c": spaces.MultiDiscrete([2, 3], start=[0, 5]),
        }
    )
    observation = {
        "a": np.array([1, 3]),
        "b": (np.arange(8.0).reshape(2, 2, 2), np.array([[0, 1], [1, 1]], np.int8)),
        "c": np.array([[1, 5], [0, 7]]),
    }
    expected = [
        [1, 0, 0, 0, 1, 2, 3, 0, 1, 0, 1, 1, 0, 0],
        [0, 0, 1, 4, 5, 6, 7, 1, 1, 1, 0, 0, 0, 1],
    ]
    features = flatten_observation(space, observation)
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features, expected)
    assert num_features(space) == 14
    plain = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(flatten_observation(spaces.Box(0, 9, (3,), np.float32), plain), plain)


def test_spaces_that_cannot_be_flattened_are_refused() -> None:
    from tests.agents_toy import GivenObservation

    with pytest.raises(ConfigError, match="Text"):
        make_agent(ppo_spec(), GivenObservation(spaces.Dict({"name": spaces.Text(5)})))
    with pytest.raises(ConfigError, match="MultiDiscrete or a Box"):
        make_agent(ppo_spec(), action_space=spaces.MultiBinary(3))
    with pytest.raises(ConfigError, match="full_history"):
        make_agent(ppo_spec(network=RecurrentSpec()))
