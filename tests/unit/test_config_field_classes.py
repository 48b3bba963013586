"""Every field has a class, and a digest moves with its own classes only."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.cli.experiments import shipped_experiments
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.field_classes import FIELD_CLASSES, FieldClass, leaves
from rlcore.config.loading import load_experiment


def demo(*overrides: str) -> ExperimentSpec:
    return load_experiment(shipped_experiments()["demo"], overrides)


def test_every_field_has_a_class() -> None:
    found = {leaf.key: leaf.field_class for leaf in leaves(demo())}
    assert set(found.values()) == set(FIELD_CLASSES)
    assert found["market.num_days"] == "data"
    assert found["reward.price_advantage.weight"] == "training"
    assert found["agent.network.sizes"] == "training"
    assert found["training.iterations"] == "budget"
    assert found["training.checkpoints.every_iterations"] == "runtime"
    assert found["evaluation.lanes"] == "evaluation"
    assert found["seeds"] == "runtime"


@pytest.mark.parametrize(
    ("override", "moved"),
    [
        ("market.num_days=50", "data"),
        ("orders.seed=1", "data"),
        ("split.test_days=5", "data"),
        ("execution.participation_cap=null", "training"),
        ("reward.price_advantage.weight=2", "training"),
        ("agent.network.sizes=[8]", "training"),
        ("training.lanes=7", "training"),
        ("training.iterations=99", "budget"),
        ("training.early_stopping={patience: 3}", "budget"),
        ("training.checkpoints.monitor=train/return/mean", "budget"),
        ("training.checkpoints.keep_last=9", "runtime"),
        ("training.loggers=[{kind: csv}]", "runtime"),
        ("training.wall_clock_budget_seconds=60", "budget"),
        ("training.fast_dev_run=2", "training"),
        ("runtime.space_checks=first_episodes", "runtime"),
        ("evaluation.baselines=[twap]", "evaluation"),
        ("runtime.threads=2", "runtime"),
        ("name=other", "runtime"),
        ("seeds=[5]", "runtime"),
    ],
)
def test_a_change_moves_the_digest_of_its_class_alone(override: str, moved: FieldClass) -> None:
    before, after = demo(), demo(override)
    changed = {name for name in FIELD_CLASSES if before.digest(name) != after.digest(name)}
    assert changed == {moved}


def test_a_file_stands_in_a_digest_by_its_content(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bars.csv").write_text("one")

    def digest(folder: str) -> str:
        market = f"{{kind: bars, source: {tmp_path / folder / 'bars.csv'}, calendar: XNYS}}"
        return demo(f"market={market}").digest("data")

    assert digest("a") == digest("b")
    (tmp_path / "b" / "bars.csv").write_text("two")
    assert digest("a") != digest("b")


def test_a_checkpoint_carries_data_and_training_fields_and_no_budget() -> None:
    config = demo().checkpoint_config()
    assert set(config) == {"data", "training"}
    assert config["training"]["agent.learning_rate"] == 0.001
    assert not any(
        key.startswith(("runtime", "evaluation", "seeds")) or key == "training.iterations" for key in config["training"]
    )
