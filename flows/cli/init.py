"""``fillwright init``: an experiment and a plugin to start from, that run as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

EXPERIMENT = "experiment.yaml"
PLUGIN = "own_parts.py"
TASK_PLUGIN = "own_task.py"

_EXPERIMENT_TEXT = f"""\
# One file is one experiment. `fillwright config check {EXPERIMENT}` holds it to the rules and says what it will cost,
# `fillwright list --plugin {PLUGIN}` says what may stand in it, and every key can be set for one run (--set seeds=[0]).
name: my-experiment

# Parts of your own; see the file.
plugins: [{PLUGIN}]

market:
  # Your bars: {{kind: bars, source: FILE, calendar: XNYS}}; `fillwright data check FILE --calendar XNYS` says what they are like.
  kind: synthetic
  num_instruments: 8
  num_days: 60

orders:
  kind: sampled
  num_orders: 4000
  fraction_of_day_volume: [0.001, 0.01]

split:
  kind: by_date
  validation_days: 8
  test_days: 16

execution:
  kind: fast
  ticks_per_step: 30
  participation_cap: 0.2
  price: close

observation:
  kind: current_step

action:
  kind: categorical
  fractions: [0, 0.125, 0.25, 0.5, 1]

# reward = sum of weight x term; every term is a metric of its own.
reward:
  price_advantage: {{kind: price_advantage, weight: 0.1}}
  impatience: {{kind: impatience, weight: 0.05}} # from {PLUGIN}

agent:
  kind: ppo
  network: {{kind: gated, width: 64}} # from {PLUGIN}
  learning_rate: 1e-3
  discount: 1
  batch_size: 1024
  num_repeats: 4

training:
  iterations: 10
  episodes_per_iteration: 1024
  lanes: 1024
  validate_every: 5

seeds: [0, 1]
"""


TASK_EXPERIMENT_TEXT = f"""\
# One file is one experiment, here on a task of your own. `fillwright config check {EXPERIMENT}` holds it to the rules and says
# what it will cost, `fillwright list --plugin {TASK_PLUGIN}` what may stand in it, and every key can be set (--set seeds=[0]).
name: my-task

# The task is Python: its simulator, observation, action and rewards. Nothing in it need be about trading.
plugins: [{TASK_PLUGIN}]

task:
  kind: parts
  simulator: {{kind: walk, wall: 10}} # each of these kinds is registered in {TASK_PLUGIN}
  observation: {{kind: position}}
  action: {{kind: left_or_right}}
  # reward = sum of weight x term; every term is a metric of its own.
  reward:
    arrival: {{kind: arrival, weight: 1}}
    effort: {{kind: effort, weight: 0.05}}
  # What each episode starts from. Every validation and test seed is run exactly once.
  seeds:
    train: {{kind: values, initial_states: [-10, -8, -7, -5, -3, -2, -1, 1, 2, 3, 5, 7, 9, 10]}}
    validation: {{kind: values, initial_states: [-9, 6]}}
    test: {{kind: values, initial_states: [-6, -4, 4, 8]}}
  max_steps: 30
  at_max_steps: truncate # an episode may go on for ever; after 30 steps it is cut, and its value goes on

agent:
  kind: ppo # or a2c, dqn, sac, discrete_sac
  network: {{kind: mlp, sizes: [32]}}
  learning_rate: 3e-3
  discount: 0.99
  batch_size: 256
  num_repeats: 4

training:
  iterations: 20
  episodes_per_iteration: 64 # or steps_per_iteration, where episodes are long
  lanes: 64
  validate_every: 5

seeds: [0, 1, 2]
"""


def init(
    folder: Annotated[Path, typer.Argument(help="Where the files are written; made if it is not there.")] = Path(),
    is_task: Annotated[bool, typer.Option("--task", help="A task of one's own, which is not about trading at all.")] = False,
    is_json: Json = False,
) -> None:
    """Write an experiment and a plugin with parts of one's own, to start from: a reward and a network, or a whole task."""
    from importlib import resources

    from flows.cli.output import print_result
    from rlcore.foundation.atomic_files import write_atomically
    from rlcore.foundation.errors import InputError

    # The plugins are modules of this package, so that our own checks hold them to the contracts.
    sources = resources.files("flows.cli")
    if is_task:
        contents = {TASK_PLUGIN: (sources / "starting_task.py").read_bytes(), EXPERIMENT: TASK_EXPERIMENT_TEXT.encode()}
    else:
        contents = {PLUGIN: (sources / "starting_parts.py").read_bytes(), EXPERIMENT: _EXPERIMENT_TEXT.encode()}
    targets = {folder / name: content for name, content in contents.items()}
    present = [str(target) for target in targets if target.exists()]
    if present:
        raise InputError(f"files to write must not be there yet, were {', '.join(present)}: name another folder")
    try:
        for target, content in targets.items():
            write_atomically(target, content)
    except OSError as error:
        raise InputError(f"folder must be one that can be written, was {folder} ({error.strerror or error})") from error
    lines = [f"wrote {target}" for target in targets]
    lines += ["", "next:", f"  fillwright config check {folder / EXPERIMENT}", f"  fillwright run {folder / EXPERIMENT}"]
    print_result({"written": list(targets)}, lines, is_json)
