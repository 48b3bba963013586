"""What a run on a task of one's own shows: a column for each phase that has figures, and each figure's latest value."""

from __future__ import annotations

from pathlib import Path

from flows.task_phases import phases_of
from flows.task_publishing import headline
from flows.tracking.training_reporter import last_figures


def test_a_figure_is_shown_from_the_newest_iteration_that_has_it(tmp_path: Path) -> None:
    # By steps, no episode need end in an iteration: then only what is counted in steps is there.
    (tmp_path / "train.csv").write_text(
        "iteration,train/return/mean,train/reward_per_step\n1,0.25,0.1\n2,0.5,0.2\n3,,0.3\n", encoding="utf-8"
    )
    assert last_figures(tmp_path, dict) == {"train/return/mean": 0.5, "train/reward_per_step": 0.3}
    assert last_figures(tmp_path / "elsewhere", dict) == {}


def test_each_validation_set_has_a_column_of_its_own_in_the_order_of_the_file() -> None:
    sets = ("near", "far")
    figures = [f"best_validation/{name}/{figure}/mean" for name in sets for figure in ("reward/return", "return")]
    assert phases_of(["train/return/mean", *figures]) == {
        "train": "training, latest",
        "best_validation/near": "validation near",
        "best_validation/far": "validation far",
    }


def test_one_validation_set_has_no_name_whatever_the_terms_of_the_reward_are_called() -> None:
    figures = ["best_validation/reward/return/mean/seeds_mean", "best_validation/return/mean/seeds_mean"]
    assert phases_of(figures, "/seeds_mean") == {"best_validation": "validation"}


def test_the_sentence_is_of_the_last_phase_and_of_the_first_validation_set() -> None:
    spread = {"seeds_mean": 0.5, "seeds_min": 0.25, "seeds_max": 0.75}
    names = ["train", "best_validation/near", "best_validation/far"]
    figures = {f"{name}/return/mean/{end}": value for name in names for end, value in spread.items()}
    assert headline(figures, 2) == (
        "The mean return of an episode on the validation near seeds is 0.5, 0.25 to 0.75 over 2 trainings."
    )
    assert headline({}, 2) == ""
