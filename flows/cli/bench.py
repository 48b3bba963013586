"""``fillwright bench``: what our own work costs here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.options import Json

RIVAL_VARIABLE = "FILLWRIGHT_BENCH_QLIB"
_SMALLEST_SHARE = 0.02  # what is less is not named


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME...]", help="environment rollout fit env_wrapper_step; none: all.")
    ] = None,
    is_json: Json = False,
) -> None:
    """Measure steps for each CPU second: median of five and spread, one thread. With FILLWRIGHT_BENCH_QLIB, QlibRL beside it."""
    import tempfile

    from flows.bench.figures import check_names, measure_in_own_process
    from flows.bench.rival import agree, compare, measure_rival
    from flows.bench.scenario import write_scenario
    from flows.cli.output import aligned, print_result, progress_shown

    chosen = check_names(names or ())
    python = os.environ.get(RIVAL_VARIABLE)
    figures: list[dict[str, Any]] = []
    rivals: list[dict[str, Any]] = []
    agreement: dict[str, float] | None = None
    with tempfile.TemporaryDirectory(prefix="fillwright-bench-") as made, progress_shown(is_json) as progress:
        folder = Path(made)
        write_scenario(folder)
        if python:
            progress("bench", 0, len(chosen), "fills of both")
            agreement = agree(Path(python), folder)
        for done, name in enumerate(chosen):
            progress("bench", done, len(chosen), name)
            figures += measure_in_own_process(folder, name)
            rival = measure_rival(Path(python), folder, name) if python else None
            if rival is not None:
                rivals.append(rival)
        progress("bench", len(chosen), len(chosen))
    ratios = [compare(figures, rival) for rival in rivals]
    lines = [*aligned(_rows(figures)), "", *_where(figures)]
    if agreement is not None:
        lines += ["", _agreed(agreement), "", *aligned(_rival_rows(rivals, ratios))]
    print_result({"figures": figures, "agreement": agreement, "rivals": rivals, "ratios": ratios}, lines, is_json)


def _rows(figures: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("figure", "count", "CPU seconds (spread)", "per CPU second", "microseconds each", "peak memory")
    ]
    for figure in figures:
        low, high = figure["cpu_seconds_spread"]
        rows.append(
            (
                figure["name"],
                f"{figure['count']:,} {figure['unit']}",
                f"{figure['cpu_seconds']:.3f} ({low:.3f} to {high:.3f})",
                f"{figure['per_cpu_second']:,.0f}",
                f"{1e6 / figure['per_cpu_second']:.2f}",
                f"{figure['peak_memory_mib']:,.0f} MiB",
            )
        )
    return rows


def _where(figures: list[dict[str, Any]]) -> list[str]:
    """Say of each figure where its time goes, and what of it no code could leave out."""
    lines = ["where the time goes"]
    for figure in figures:
        shares = ", ".join(f"{area} {share:.0%}" for area, share in figure["shares"].items() if share >= _SMALLEST_SHARE)
        lines.append(f"  {figure['name']}: {shares}")
        if figure["floor_seconds"] is not None:
            part = figure["floor_seconds"] / figure["cpu_seconds"]
            lines.append(f"    floor: {figure['floor']} takes {figure['floor_seconds']:.3f} s, {part:.0%} of the whole")
    return lines


def _agreed(agreement: dict[str, float]) -> str:
    same = f"the same {agreement['num_orders']:,} orders, {agreement['num_fills']:,} fills in both"
    fills, advantage = agreement["fills"], agreement["price_advantage_bps"]
    return f"{same}: largest difference {fills:.1e} of an order, {advantage:.1e} bps of price advantage"


def _rival_rows(rivals: list[dict[str, Any]], ratios: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return the rival's figures, and how many times faster the fastest of ours of the same work is."""
    rows: list[tuple[str, ...]] = [
        (
            "QlibRL",
            "count",
            "CPU seconds (spread)",
            "wall",
            "per CPU second",
            "peak memory",
            "ours faster by CPU",
            "by its wall time",
            "our memory",
        )
    ]
    for rival, ratio in zip(rivals, ratios, strict=True):
        low, high = rival["cpu_seconds_spread"]
        rows.append(
            (
                rival["name"],
                f"{rival['count']:,}",
                f"{rival['cpu_seconds']:.2f} ({low:.2f} to {high:.2f})",
                f"{rival['wall_seconds']:.2f}",
                f"{rival['per_cpu_second']:,.1f}",
                f"{rival['peak_memory_mib']:,.0f} MiB",
                f"{ratio['by_cpu']:,.1f} times",
                f"{ratio['by_wall']:,.1f} times",
                f"{ratio['memory']:.2f} of its",
            )
        )
    return rows
