"""``fillwright init``: an experiment and a plugin to start from, that run as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

EXPERIMENT = "experiment.yaml"
PLUGIN = "own_parts.py"

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


def init(
    folder: Annotated[Path, typer.Argument(help="Where the files are written; made if it is not there.")] = Path(),
    is_json: Json = False,
) -> None:
    """Write an experiment and a plugin with a reward and a network of one's own, to start from."""
    from importlib import resources

    from flows.cli.output import print_result
    from rlcore.foundation.atomic_files import write_atomically
    from rlcore.foundation.errors import InputError

    # The plugin is a module of this package, so that our own checks hold it to the contracts.
    plugin = (resources.files("flows.cli") / "starting_parts.py").read_bytes()
    contents = {folder / PLUGIN: plugin, folder / EXPERIMENT: _EXPERIMENT_TEXT.encode()}
    present = [str(target) for target in contents if target.exists()]
    if present:
        raise InputError(f"files to write must not be there yet, were {', '.join(present)}: name another folder")
    try:
        for target, content in contents.items():
            write_atomically(target, content)
    except OSError as error:
        raise InputError(f"folder must be one that can be written, was {folder} ({error.strerror or error})") from error
    lines = [f"wrote {target}" for target in contents]
    lines += ["", "next:", f"  fillwright config check {folder / EXPERIMENT}", f"  fillwright run {folder / EXPERIMENT}"]
    print_result({"written": list(contents)}, lines, is_json)
