"""Naive aggregates: each computed from the whole list of a pane's values, in arrival order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tests.model.time_intervals import Event, exact


def _largest(rows: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The earliest row with the largest `x`; NaN is larger than every number, null is no value."""
    best = None
    for row in rows:
        if row["x"] is not None and (best is None or _rank(row["x"]) > _rank(best["x"])):
            best = row
    return best


def _rank(x: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(x) else (False, x)


def _present(rows: Sequence[dict[str, Any]], column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def _field(row: dict[str, Any] | None, column: str) -> Any:
    return None if row is None else row[column]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _quantile(values: list[Any], parts: int) -> list[Any] | None:
    """The smallest value that one part of so many does not exceed."""
    return [sorted(values)[-(-len(values) // parts) - 1]] if values else None


Naive = Callable[[Sequence[dict[str, Any]]], Any]

NAIVE: dict[str, Naive] = {
    "count": len,
    "count_x": lambda rows: len(_present(rows, "x")),
    "sum": lambda rows: sum(_present(rows, "n")) if _present(rows, "n") else None,
    "mean": lambda rows: _mean(_present(rows, "n")),
    "max": lambda rows: _field(_largest(rows), "x"),
    "arg_max": lambda rows: _field(_largest(rows), "who"),
    "first": lambda rows: next(iter(_present(rows, "who")), None),
    "last": lambda rows: next(reversed(_present(rows, "who")), None),
    "quartile": lambda rows: _quantile(_present(rows, "n"), 4),
    "distinct": lambda rows: len(set(_present(rows, "who"))),
    "collect": lambda rows: _present(rows, "who"),
}
"""Result column -> its value, from the rows of a pane: `n` int, `x` float, `who` text, each may be null."""


def firings(events: Sequence[Event], names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The result log that these events of the naive window make.

    One (key, pane start us, refinement, reason, aggregates...) a trigger; the refinement counts earlier triggers of
    that partition and pane.
    """
    before: dict[str, int] = {}
    log = []
    for event in events:
        if event["event"] == "trigger":
            place = repr((event["key"], event["pane"]))
            refinement = before[place] = before.get(place, -1) + 1
            results = [NAIVE[name](event["tuples"]) for name in names]
            log.append((event["key"], exact(event["pane"][0]), refinement, *results))
    return log
