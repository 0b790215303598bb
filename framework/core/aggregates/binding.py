"""From a declared aggregate and its column types to the half that runs. Knows all families, computes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from framework.core.aggregates import type_checks as fit
from framework.core.aggregates.approx_distinct import Distinct
from framework.core.aggregates.content import Collect
from framework.core.aggregates.protocol import Accumulator
from framework.core.aggregates.selections import Arrival, Extreme
from framework.core.aggregates.stddev import Spread
from framework.core.aggregates.sums import Count, FloatSum, IntSum
from framework.core.aggregates.user import UserContent, UserPartial

if TYPE_CHECKING:
    from framework.declarations.aggregates import Aggregate


def bind(declared: Aggregate, schema: pa.Schema) -> Accumulator:
    """Return the running half; raises DeclarationError if a column is not there or does not fit."""
    return _BINDERS[declared.kind](declared, schema)


def _count(a: Aggregate, schema: pa.Schema) -> Accumulator:
    for column in a.columns:
        fit.column_type(schema, column, str(a))
    return Count(inputs=a.columns)


def _added(a: Aggregate, schema: pa.Schema) -> Accumulator:
    averaged = a.kind == "mean"
    if pa.types.is_floating(fit.number(schema, a.columns[0], str(a))):
        return FloatSum(inputs=a.columns, mean=averaged)
    return IntSum(inputs=a.columns, mean=averaged, output=pa.float64() if averaged else pa.int64())


def _spread(a: Aggregate, schema: pa.Schema) -> Accumulator:
    fit.number(schema, a.columns[0], str(a))
    return Spread(inputs=a.columns)


def _extreme(a: Aggregate, schema: pa.Schema) -> Accumulator:
    by = a.columns[0]
    kind = fit.orderable(schema, by, str(a))
    value = a.columns[1] if len(a.columns) > 1 else None
    output = kind if value is None else fit.column_type(schema, value, str(a))
    largest = a.kind in ("max", "arg_max")
    return Extreme(inputs=a.columns, output=output, by=by, by_type=kind, value=value, largest=largest)


def _arrival(a: Aggregate, schema: pa.Schema) -> Accumulator:
    output = fit.column_type(schema, a.columns[0], str(a))
    return Arrival(inputs=a.columns, output=output, earliest=a.kind == "first")


def _collect(a: Aggregate, schema: pa.Schema) -> Accumulator:
    return Collect(inputs=a.columns, output=pa.list_(fit.column_type(schema, a.columns[0], str(a))))


def _distinct(a: Aggregate, schema: pa.Schema) -> Accumulator:
    fit.hashable(schema, a.columns[0], str(a))
    return Distinct(inputs=a.columns)


def _user(a: Aggregate, schema: pa.Schema) -> Accumulator:
    assert a.user is not None
    fit.column_type(schema, a.columns[0], str(a))
    if a.needs_content:
        return UserContent(inputs=a.columns, output=a.output, user=a.user)
    return UserPartial(inputs=a.columns, output=a.output, user=a.user, kind=fit.durable_state(a.user.state, str(a)))


_BINDERS: dict[str, Callable[[Aggregate, pa.Schema], Accumulator]] = {
    "count": _count,
    "sum": _added,
    "mean": _added,
    "stddev": _spread,
    "max": _extreme,
    "min": _extreme,
    "arg_max": _extreme,
    "arg_min": _extreme,
    "first": _arrival,
    "last": _arrival,
    "collect": _collect,
    "approx_distinct": _distinct,
    "user": _user,
}
