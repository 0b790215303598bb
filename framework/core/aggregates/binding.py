"""Which accumulator computes a declared aggregate on columns of these types: one line a kind."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from panekeeper.framework.core.aggregates import type_checks as fit
from panekeeper.framework.core.aggregates.approx_distinct import ApproxDistinct
from panekeeper.framework.core.aggregates.content import Collect
from panekeeper.framework.core.aggregates.protocol import Accumulator
from panekeeper.framework.core.aggregates.selections import Extreme, FirstOrLast
from panekeeper.framework.core.aggregates.stddev import StdDev
from panekeeper.framework.core.aggregates.sums import CountAccumulator, FloatSum, IntSum
from panekeeper.framework.core.aggregates.user import UserContentAggregate, UserPartialAggregate
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.arrow_types import state_type


def bind(declared: Aggregate, schema: pa.Schema) -> Accumulator:
    """Return the accumulator of an aggregate for columns of these types.

    Raises:
        DeclarationError: a column that is not there, or whose type does not fit; the error says which types do.
    """
    return _BINDERS[declared.kind](declared, schema)


def _bind_count(a: Aggregate, schema: pa.Schema) -> Accumulator:
    for column in a.columns:
        fit.column_type(schema, column, str(a))
    return CountAccumulator(inputs=a.columns)


def _bind_sum(a: Aggregate, schema: pa.Schema) -> Accumulator:
    averaged = a.kind == "mean"
    if pa.types.is_floating(fit.numeric_type(schema, a.columns[0], str(a))):
        return FloatSum(inputs=a.columns, mean=averaged)
    return IntSum(inputs=a.columns, mean=averaged, output=pa.float64() if averaged else pa.int64())


def _bind_stddev(a: Aggregate, schema: pa.Schema) -> Accumulator:
    fit.numeric_type(schema, a.columns[0], str(a))
    return StdDev(inputs=a.columns)


def _bind_extreme(a: Aggregate, schema: pa.Schema) -> Accumulator:
    by = a.columns[0]
    kind = fit.orderable_type(schema, by, str(a))
    value = a.columns[1] if len(a.columns) > 1 else None
    output = kind if value is None else fit.column_type(schema, value, str(a))
    largest = a.kind in ("max", "arg_max")
    return Extreme(inputs=a.columns, output=output, by=by, by_type=kind, value=value, largest=largest)


def _bind_first_last(a: Aggregate, schema: pa.Schema) -> Accumulator:
    output = fit.column_type(schema, a.columns[0], str(a))
    return FirstOrLast(inputs=a.columns, output=output, earliest=a.kind == "first")


def _bind_collect(a: Aggregate, schema: pa.Schema) -> Accumulator:
    return Collect(inputs=a.columns, output=pa.list_(fit.column_type(schema, a.columns[0], str(a))))


def _bind_approx_distinct(a: Aggregate, schema: pa.Schema) -> Accumulator:
    fit.hashable_type(schema, a.columns[0], str(a))
    return ApproxDistinct(inputs=a.columns)


def _bind_user(a: Aggregate, schema: pa.Schema) -> Accumulator:
    assert a.user is not None
    fit.column_type(schema, a.columns[0], str(a))
    if a.needs_content:
        return UserContentAggregate(inputs=a.columns, output=a.output, user=a.user)
    return UserPartialAggregate(inputs=a.columns, output=a.output, user=a.user, kind=state_type(a.user.state, str(a)))


_BINDERS: dict[str, Callable[[Aggregate, pa.Schema], Accumulator]] = {
    "count": _bind_count,
    "sum": _bind_sum,
    "mean": _bind_sum,
    "stddev": _bind_stddev,
    "max": _bind_extreme,
    "min": _bind_extreme,
    "arg_max": _bind_extreme,
    "arg_min": _bind_extreme,
    "first": _bind_first_last,
    "last": _bind_first_last,
    "collect": _bind_collect,
    "approx_distinct": _bind_approx_distinct,
    "user": _bind_user,
}
