"""``fillwright data``: check market data, build a store from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import AsOf, Json, as_of_date

if TYPE_CHECKING:
    from rlcore.config.market_specs import BarsSpec
    from rlcore.market.quality import QualityReport

Sources = Annotated[list[Path], typer.Argument(metavar="SOURCE...", help="Tidy parquet or CSV files, or folders of them.")]
Calendar = Annotated[
    str, typer.Option("--calendar", help='XNYS, XNSE, XSHG, …; 24/7; or sessions with a zone: "09:15-15:30 Asia/Kolkata".')
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any other key of a market of kind bars: tick_minutes, timezone, label, columns, extra_fields, duplicates, …",
    ),
]


def check(sources: Sources, calendar: Calendar, overrides: Set = None, as_of: AsOf = None, is_json: Json = False) -> None:
    """Read bars, hold them to the rules, and say what they are like. Writes nothing."""
    from flows.cli.output import print_result
    from rlcore.market.build_store import check_source

    bars = _spec(sources, calendar, overrides)
    report = check_source(
        list(bars.source),
        calendar=bars.calendar,
        tick_minutes=bars.tick_minutes,
        bar_format=bars.bar_format(),
        through=as_of_date(as_of),
    )
    print_result({"quality": report.to_dict(), "warnings": report.warnings()}, _lines(report), is_json)


def build(
    sources: Sources,
    calendar: Calendar,
    destination: Annotated[Path, typer.Option("--output", help="Folder of the store; replaced as a whole.")],
    overrides: Set = None,
    as_of: AsOf = None,
    is_json: Json = False,
) -> None:
    """Build a market store of one's own choosing of place. (`run` builds the one it needs by itself.)"""
    from flows.cli.output import print_result

    store = _spec(sources, calendar, overrides).build_store(destination, as_of_date(as_of))
    report = store.quality
    result = {
        "store": store.path,
        "fingerprint": store.fingerprint,
        "num_instruments": len(store.instruments),
        "num_instrument_days": store.num_rows,
        "num_ticks": store.num_ticks,
        "fields": store.fields,
        "first_day": str(store.dates[0]),
        "last_day": str(store.dates[-1]),
        "warnings": report.warnings() if report is not None else (),
    }
    lines = [f"{key.replace('_', ' '):20} {value}" for key, value in result.items() if key not in ("fields", "warnings")]
    lines += [f"{'fields':20} {', '.join(store.fields)}", *(f"warning: {text}" for text in (report.warnings() if report else ()))]
    print_result(result, lines, is_json)


def _spec(sources: list[Path], calendar: str, overrides: list[str] | None) -> BarsSpec:
    from rlcore.config.loading import parse_market
    from rlcore.config.market_specs import BarsSpec

    data = {"kind": "bars", "source": [str(path.absolute()) for path in sources], "calendar": calendar}
    spec = parse_market(data, [f"market.{text}" for text in overrides or ()])
    assert isinstance(spec, BarsSpec)  # of kind bars
    return spec


def _lines(report: QualityReport) -> list[str]:
    from flows.cli.output import aligned

    rows = [("instrument", "days", "incomplete", "missing", "bars", "coverage", "zero volume")]
    rows += [
        (
            one.instrument,
            str(one.num_days),
            str(one.num_incomplete_days),
            str(one.num_missing_days),
            str(one.num_bars),
            f"{one.mean_coverage:.1%}",
            f"{one.zero_volume_share:.1%}",
        )
        for one in report.instruments
    ]
    summary = f"{report.num_bars} bars, {report.num_outside_session} of them outside the session"
    return [*aligned(rows), "", summary, *(f"warning: {text}" for text in report.warnings())]
