"""Experiment files: what is read, what is refused, and in which words."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from flows.cli.experiments import shipped_experiments
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.loading import experiment_schema, load_experiment, make_registry, parse_experiment
from rlcore.config.yaml_files import parse_yaml
from rlcore.foundation.errors import ConfigError

TEXT = """\
name: small
market: {kind: synthetic, num_instruments: 2, num_days: 10}
orders:
  kind: sampled
  num_orders: 100
  fraction_of_day_volume: [1e-3, 0.01]
  windows: [[10:30, 15:00]]
split: {kind: by_date, validation_days: 1, test_days: 2}
execution: {kind: fast, ticks_per_step: 30, participation_cap: 0.1, price: close}
observation: {kind: current_step}
action: {kind: categorical, fractions: [0, 0.5, 1]}
reward:
  price_advantage: {kind: price_advantage, weight: 1}
agent:
  kind: ppo
  network: {kind: mlp}
  learning_rate: 1e-3
  discount: 1
  batch_size: 256
  num_repeats: 2
training: {iterations: 3, episodes_per_iteration: 100, lanes: 64}
seeds: [0, 1]
"""
AGENTS = ", ".join(make_registry().kinds("agent"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(TEXT)
    return path


def refusal(file: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_experiment(file, overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10:30", "10:30"),  # YAML 1.1: the number 630
        ("NO", "NO"),  # false
        ("off", "off"),  # false
        ("1e-4", 1e-4),  # text
        ("1e3", 1000.0),  # text
        ("010", 10),  # 8
        ("1_000", "1_000"),  # 1000
        ("2021-04-01", "2021-04-01"),  # a date
        ("true", True),
        ("-3", -3),
        ("+.5", 0.5),
        ("~", None),
        ("", None),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    parsed = parse_yaml(text, "here")
    assert parsed == value and type(parsed) is type(value)


def test_values_of_the_file_arrive(file: Path) -> None:
    experiment = load_experiment(file)
    assert experiment.agent.learning_rate == 0.001
    assert experiment.orders.windows == (("10:30", "15:00"),)
    assert experiment.seeds == (0, 1)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("agent.lerning_rate=1", "agent.lerning_rate must be a known key, is none (did you mean 'learning_rate'?)"),
        ("learning_rate=3", "learning_rate must be a known key, is none (did you mean 'agent.learning_rate'?)"),
        ("agent.learning_rate=-1", "agent.learning_rate must be greater than 0.0, was -1"),
        ("agent.learning_rate=abc", "agent.learning_rate must be a number, was 'abc'"),
        ("agent.kind=pp0", f"agent.kind must be one of {AGENTS}, was 'pp0' (did you mean 'ppo'?)"),
        ("agent.network={kind: mlp, sizes: [64, 0]}", "agent.network.sizes.1 must be at least 1, was 0"),
        ("reward.price_advantage.weight=.nan", "reward.price_advantage.weight must be finite, was nan"),
        ("reward.price_advantage.wait=1", "reward.price_advantage.wait must be a known key, is none (did you mean 'weight'?)"),
        ("action.fractions=[0, 0.5, 0.2]", "action.fractions must be increasing, was [0.0, 0.5, 0.2]"),
        (
            "evaluation.baselines=[vwap]",
            "evaluation must have its reference among its baselines, twap is not in ['vwap']",
        ),
        (
            "training.validate_every=9",
            "training must be validated at least once, validate_every is 9 and iterations 3",
        ),
        ("seeds=[1, 1]", "seeds must name each seed once, was [1, 1]"),
        ("training.iterations=true", "training.iterations must be a whole number, was True"),
        ("orders.num_orders.x=1", "'x' must lie below a key that holds keys, there stands 100"),
        ("seeds.5=1", "'5' must be the position of an entry, 0 … 1"),
        ("market=null", "market must hold keys and values, was None"),
    ],
)
def test_an_override_that_does_not_fit_is_named_with_rule_and_value(file: Path, override: str, expected: str) -> None:
    assert refusal(file, override) == f"--set {override}: {expected}"


def test_a_mistake_in_the_file_is_named_with_its_line(file: Path) -> None:
    file.write_text(TEXT.replace("learning_rate: 1e-3", "learning_rate: fast"))
    assert refusal(file) == f"{file} line 17: agent.learning_rate must be a number, was 'fast'"


def test_everything_that_is_wrong_is_said_at_once(file: Path) -> None:
    lines = refusal(file, "agent.discount=2", "market.num_days=0").splitlines()
    assert lines == [
        "--set market.num_days=0: market.num_days must be at least 1, was 0",
        "--set agent.discount=2: agent.discount must be at most 1.0, was 2",
    ]


def test_a_missing_key_says_what_it_means_and_how_to_give_it(file: Path) -> None:
    message = refusal(file, "market={kind: bars, calendar: XNYS}")
    assert message.endswith(
        "market.source must be given (A file, a folder of files, or a list of either): "
        "add it to the file, or --set market.source=VALUE"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\na: 2\n", " line 2: key must stand once, 'a' stands twice"),
        ("- 1", ": must hold keys and values"),
        ("1: 2", " line 1: key must be text, was 1"),
        ("a: [", " line 1: expected"),
    ],
)
def test_what_is_no_mapping_of_unique_keys_is_refused(file: Path, text: str, expected: str) -> None:
    file.write_text(text)
    assert refusal(file).startswith(f"{file}{expected}")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "none.yaml")


def test_any_key_can_be_set(file: Path) -> None:
    """Every leaf of the experiment, set to the value that it has, gives the same experiment."""
    experiment = load_experiment(file)
    overrides = [f"{key}={json.dumps(value)}" for key, value in experiment.fields().items()]
    assert len(overrides) > 50
    assert load_experiment(file, overrides).to_plain() == experiment.to_plain()


def test_an_override_can_reach_lists_new_terms_and_absent_sections(file: Path) -> None:
    overrides = [
        "seeds.1=7",
        "reward.cost={kind: shortfall, weight: 2}",
        "reward.cost.weight=3",
        "evaluation.confidence_level=0.9",
    ]
    experiment = load_experiment(file, overrides)
    assert experiment.seeds == (0, 7)
    assert experiment.reward["cost"].weight == 3
    assert experiment.evaluation.confidence_level == 0.9


def test_what_an_anchor_shares_is_set_alone(file: Path) -> None:
    shared = TEXT.replace("  price_advantage: {", "  price_advantage: &term {") + "\n"
    file.write_text(shared.replace("agent:\n", "  cost: *term\nagent:\n", 1))
    experiment = load_experiment(file, ["reward.cost.weight=5"])
    assert [term.weight for term in experiment.reward.values()] == [1, 5]


def test_relative_paths_start_at_the_file_and_on_the_command_line_at_the_working_directory(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    file.write_text(
        TEXT.replace(
            "{kind: synthetic, num_instruments: 2, num_days: 10}", "{kind: bars, source: [bars.csv, /b.csv], calendar: XNYS}"
        )
    )
    assert load_experiment(file).market.source == (tmp_path / "bars.csv", Path("/b.csv"))
    assert load_experiment(file, ["market.source=../c.csv"]).market.source == (tmp_path / "elsewhere" / ".." / "c.csv",)


def test_an_experiment_is_frozen_and_survives_pickling_and_plain_data(file: Path) -> None:
    experiment = load_experiment(file)
    with pytest.raises(ValueError, match="frozen"):
        experiment.name = "other"  # type: ignore[misc]  # that is the test
    for copy in (pickle.loads(pickle.dumps(experiment)), parse_experiment(experiment.to_plain())):
        assert isinstance(copy, ExperimentSpec)
        assert copy.to_plain() == experiment.to_plain()
        assert copy.digest() == experiment.digest()


def test_every_key_of_the_schema_is_described() -> None:
    schema = experiment_schema()
    specs = list(schema["$defs"].values())
    bare = [
        f"{spec['title']}.{name}"
        for spec in specs
        for name, field in spec.get("properties", {}).items()
        if name != "kind" and not field.get("description")
    ]
    assert bare == []


@pytest.mark.parametrize("name", sorted(shipped_experiments()))
def test_shipped_experiments_are_valid(name: str) -> None:
    overrides = ["market.source=bars.csv"] if name == "minute_bars_ppo" else []
    assert load_experiment(shipped_experiments()[name], overrides).seeds
