"""The simulator again, for one order, in plain Python floats and loops: slow, obvious, written without the fast one in view."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Day:
    """One instrument-day as lists over the session's ticks; None where nothing is known."""

    close: list
    open: list
    volume: list
    vwap: list | None
    bid: list | None
    ask: list | None
    last_close_before: float | None  # of earlier days


@dataclass
class Result:
    fills: dict = field(default_factory=dict)  # tick -> (shares, price)
    remaining: list = field(default_factory=list)  # after each step
    steps: list = field(default_factory=list)  # (first tick, end tick) of each step


def last_known_prices(day):
    marks, last = [], day.last_close_before
    for close in day.close:
        if close is not None:
            last = close
        marks.append(last)
    return marks


def fill_price(day, tick, side, price):
    """Return what the tick fills at, or None where it fills nothing."""
    if day.close[tick] is None or day.volume[tick] is None or not day.volume[tick] > 0:
        return None
    if price == "close":
        return day.close[tick]
    if price == "vwap":
        return day.vwap[tick]
    return day.ask[tick] if side > 0 else day.bid[tick]


def pour(quantity, capacities):
    """Give equal parts to every tick that has room, again and again, until nothing is left or no room is left."""
    given = [0.0] * len(capacities)
    left = quantity
    for _ in range(len(capacities) + 1):
        open_ticks = [i for i, capacity in enumerate(capacities) if given[i] < capacity]
        if not open_ticks or left <= 0:
            break
        part = left / len(open_ticks)
        smallest_room = min(capacities[i] - given[i] for i in open_ticks)
        part = min(part, smallest_room)
        for i in open_ticks:
            given[i] = capacities[i] if capacities[i] - given[i] == part else given[i] + part
        left = quantity - math.fsum(given)
    return given


def execute(day, side, quantity, start, end, ticks_per_step, cap, price, wanted):
    """Run one order; ``wanted(step, remaining)`` says how many shares to trade in a step."""
    result, remaining, now, step = Result(), quantity, start, 0
    while True:
        until = min((now // ticks_per_step + 1) * ticks_per_step, end)
        ticks = list(range(now, until))
        prices = [fill_price(day, tick, side, price) for tick in ticks]
        capacities = []
        for tick, at in zip(ticks, prices, strict=True):
            if at is None:
                capacities.append(0.0)
            else:
                capacities.append(math.inf if cap is None else cap * day.volume[tick])
        if until == end:
            shares = pour(remaining, capacities)
        else:
            target = min(wanted(step, remaining), remaining)
            shares = [min(target / len(ticks), capacity) for capacity in capacities]
        for tick, number, at in zip(ticks, shares, prices, strict=True):
            if number > 0:
                result.fills[tick] = (number, at)
        remaining -= math.fsum(shares)
        if remaining <= 1e-9 * quantity:
            remaining = 0.0
        result.remaining.append(remaining)
        result.steps.append((now, until))
        now, step = until, step + 1
        if remaining == 0.0 or until == end:
            return result


def judge(day, side, quantity, start, end, result):
    """Return the metrics of an executed order."""
    marks = last_known_prices(day)
    known = [mark for mark in marks[start:end] if mark is not None]
    twap = math.fsum(known) / len(known)
    opening = day.open[start]
    arrival = opening if opening is not None and opening > 0 else (marks[start] if marks[start] is not None else known[0])
    bars = [t for t in range(start, end) if day.close[t] is not None and day.volume[t] is not None and day.volume[t] > 0]
    traded = [day.vwap[t] if day.vwap and day.vwap[t] is not None else day.close[t] for t in bars]
    market = math.fsum(day.volume[t] for t in bars)
    vwap = math.fsum(p * day.volume[t] for p, t in zip(traded, bars, strict=True)) / market if market else math.nan
    filled = math.fsum(number for number, _ in result.fills.values())
    average = math.fsum(number * at for number, at in result.fills.values()) / filled if filled else math.nan
    left = result.remaining[-1]
    cost = math.fsum(side * number * (at - arrival) for number, at in result.fills.values())
    cost += side * left * (marks[end - 1] - arrival)
    worked = math.fsum(day.volume[t] for t in bars if t < result.steps[-1][1])
    return {
        "fill_rate": 1.0 - left / quantity,
        "price_advantage_bps": (1 - average / twap) * 1e4 if side > 0 else (average / twap - 1) * 1e4,
        "shortfall_bps": 1e4 * cost / (quantity * arrival),
        "slippage_arrival_bps": 1e4 * side * (average / arrival - 1),
        "slippage_twap_bps": 1e4 * side * (average / twap - 1),
        "slippage_vwap_bps": 1e4 * side * (average / vwap - 1),
        "participation": filled / worked if worked else math.nan,
        "filled_quantity": filled,
        "average_price": average,
        "arrival_price": arrival,
        "end_price": marks[end - 1],
        "window_twap": twap,
        "window_vwap": vwap,
    }
