"""The declared aggregates whose naive counterparts are in `tests.model.aggregates`, by the same names."""

from __future__ import annotations

from panekeeper import agg

PARTIAL = {
    "count": agg.count(),
    "count_x": agg.count("x"),
    "sum": agg.sum("n"),
    "mean": agg.mean("n"),
    "max": agg.max("x"),
    "arg_max": agg.arg_max("x", "who"),
    "first": agg.first("who"),
    "last": agg.last("who"),
    "quartile": agg.quantiles("n", [0.25], exact=True),
    "distinct": agg.count_distinct("who"),
}
CONTENT = PARTIAL | {"collect": agg.collect("who")}
