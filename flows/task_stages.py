"""The stages that only a task of one's own has."""

from __future__ import annotations

from collections.abc import Sequence

from flows.fold_contents import validation_sets
from flows.references import TaskFold, TestReference, TrainingReference
from flows.run_names import training_name
from flows.stages import Stages
from flows.tasks.judge_agent import judge_agent
from rlcore.config.build import build_task
from rlcore.config.task_experiment import TaskExperiment
from rlcore.foundation.fingerprints import fingerprint_of


def describe_task(experiment: TaskExperiment) -> TaskFold:
    """Say what trains, chooses and judges. Nothing is prepared: every task builds its seed sets anew."""
    seeds = build_task(experiment).seeds
    fingerprints = {"train": seeds.train.fingerprint, "test": seeds.test.fingerprint}
    several = {name: one.fingerprint for name, one in validation_sets(seeds).items()}
    fingerprints["validation"] = several.get("") or fingerprint_of(list(several.items()))  # in order: the first chooses
    return TaskFold(fingerprints={f"{name}_fingerprint": value for name, value in fingerprints.items()})


def judge(stages: Stages, fold: TaskFold, trainings: Sequence[TrainingReference]) -> list[TestReference]:
    """Obtain what the test seeds say of every training's policy."""
    tests = []
    for training in trainings:
        key = stages.keys.test(training, fold)
        name = f"test-agent {training_name(training.seed, training.fold)}"
        tests.append(stages.obtain(judge_agent, name, workspace=stages.workspace, fold=fold, training=training, key=key))
    return tests
