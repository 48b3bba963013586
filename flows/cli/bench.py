"""``fillwright bench``: what our own work costs here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.options import Json

RIVAL_VARIABLE = "FILLWRIGHT_BENCH_QLIB"


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="environment rollout fit env_wrapper_step; none: all.")
    ] = None,
    is_json: Json = False,
) -> None:
    """Measure steps for each CPU second: median of five and spread, one thread. With FILLWRIGHT_BENCH_QLIB, QlibRL beside it."""
    import tempfile

    from flows.bench.figures import check_names, measure_in_own_process
    from flows.bench.scenario import write_scenario
    from flows.cli.output import aligned, print_result, progress_shown

    chosen = check_names(names or ())
    figures: list[dict[str, Any]] = []
    rivals: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="fillwright-bench-") as folder, progress_shown(is_json) as progress:
        write_scenario(Path(folder))
        for done, name in enumerate(chosen):
            progress("bench", done, len(chosen), name)
            figures += measure_in_own_process(Path(folder), name)
        python = os.environ.get(RIVAL_VARIABLE)
        if python:
            from flows.bench.rival import measure_rival

            rivals = measure_rival(Path(python), Path(folder), chosen)
        progress("bench", len(chosen), len(chosen))
    lines = aligned(_rows(figures))
    if rivals:
        lines += ["", *aligned(_rival_rows(figures, rivals))]
    print_result({"figures": figures, "rivals": rivals}, lines, is_json)


def _rows(figures: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("figure", "count", "CPU seconds (spread)", "per CPU second", "microseconds each", "peak memory", "wall time by phase")
    ]
    for figure in figures:
        low, high = figure["cpu_seconds_spread"]
        parts = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in figure["parts_seconds"].items())
        rows.append(
            (
                figure["name"],
                f"{figure['count']:,} {figure['unit']}",
                f"{figure['cpu_seconds']:.3f} ({low:.3f} to {high:.3f})",
                f"{figure['per_cpu_second']:,.0f}",
                f"{1e6 / figure['per_cpu_second']:.2f}",
                f"{figure['peak_memory_mib']:,.0f} MiB",
                parts,
            )
        )
    return rows


def _rival_rows(figures: list[dict[str, Any]], rivals: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return the rival's figures, and how many times faster the fastest of ours of the same work is."""
    rows: list[tuple[str, ...]] = [("QlibRL", "count", "CPU seconds", "per CPU second", "peak memory", "ours is faster by")]
    for rival in rivals:
        ours = max(figure["per_cpu_second"] for figure in figures if figure["name"].split(",")[0] == rival["name"])
        rows.append(
            (
                rival["name"],
                f"{rival['count']:,}",
                f"{rival['cpu_seconds']:.3f}",
                f"{rival['per_cpu_second']:,.1f}",
                f"{rival['peak_memory_mb']:,.0f} MiB",
                f"{ours / rival['per_cpu_second']:,.1f} times",
            )
        )
    return rows
