"""``python -m flows.bench FOLDER NAME``: measure one figure in this process and print it as JSON lines."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from flows.bench.figures import MODULES
from flows.bench.scenario import open_scenario


def main() -> None:
    folder, name = Path(sys.argv[1]), sys.argv[2]
    module = importlib.import_module(f"flows.bench.{name}")
    for figure in getattr(module, MODULES[name])(open_scenario(folder)):
        print(json.dumps(figure.to_plain()))


if __name__ == "__main__":
    main()
