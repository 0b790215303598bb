"""Which accumulator computes a declared aggregate on columns of these types, and does the type of a column fit it?"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from panekeeper.framework.core.aggregates.approx_distinct import ApproxDistinct, is_hashable
from panekeeper.framework.core.aggregates.columns import has_absolute_code, has_rank
from panekeeper.framework.core.aggregates.protocol import Accumulator
from panekeeper.framework.core.aggregates.selections import Collect, Extreme, FirstOrLast
from panekeeper.framework.core.aggregates.sums import CountAccumulator, FloatSum, IntSum, StdDev
from panekeeper.framework.core.aggregates.user import UserContentAggregate, UserPartialAggregate
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.arrow_types import state_type
from panekeeper.framework.declarations.errors import DeclarationError, did_you_mean


def column_type(schema: pa.Schema, column: str, aggregate_text: str) -> pa.DataType:
    """Return the type of a column; `aggregate_text` is the aggregate as written, for the error."""
    if column in schema.names:
        return schema.field(column).type
    raise DeclarationError(
        f"{aggregate_text}: there is no column {column!r}; columns are {', '.join(schema.names)}"
        f"{did_you_mean(column, schema.names)}"
    )


def numeric_type(schema: pa.Schema, column: str, aggregate_text: str) -> pa.DataType:
    """Return the type of a column of integers or floats."""
    kind = column_type(schema, column, aggregate_text)
    advice = "an integer or a float; cast it (a decimal to double or to an integer of its smallest unit)"
    return _require_type(
        kind, lambda k: pa.types.is_integer(k) or pa.types.is_floating(k), column, aggregate_text, advice
    )


def orderable_type(schema: pa.Schema, column: str, aggregate_text: str) -> pa.DataType:
    """Return the type of a column whose values have an order."""
    kind = column_type(schema, column, aggregate_text)
    advice = "a type with an order: number, decimal, boolean, date, time, text or binary"
    return _require_type(kind, lambda k: has_absolute_code(k) or has_rank(k), column, aggregate_text, advice)


def hashable_type(schema: pa.Schema, column: str, aggregate_text: str) -> pa.DataType:
    """Return the type of a column whose values can be distinguished by a hash."""
    kind = column_type(schema, column, aggregate_text)
    advice = "a number, decimal, boolean, date, time, text or binary; cast it, or count one of its fields"
    return _require_type(kind, is_hashable, column, aggregate_text, advice)


def _require_type(
    kind: pa.DataType, fits: Callable[[pa.DataType], bool], column: str, aggregate_text: str, advice: str
) -> pa.DataType:
    if not fits(kind):
        raise DeclarationError(f"{aggregate_text}: column {column!r} is {kind}; it must be {advice}")
    return kind


def bind(declared: Aggregate, schema: pa.Schema) -> Accumulator:
    """Return the accumulator of an aggregate for columns of these types.

    Raises:
        DeclarationError: a column that is not there, or whose type does not fit; the error says which types do.
    """
    return _BINDERS[declared.kind](declared, schema)


def _bind_count(a: Aggregate, schema: pa.Schema) -> Accumulator:
    for column in a.columns:
        column_type(schema, column, str(a))
    return CountAccumulator(inputs=a.columns)


def _bind_sum(a: Aggregate, schema: pa.Schema) -> Accumulator:
    averaged = a.kind == "mean"
    if pa.types.is_floating(numeric_type(schema, a.columns[0], str(a))):
        return FloatSum(inputs=a.columns, mean=averaged)
    return IntSum(inputs=a.columns, mean=averaged, output=pa.float64() if averaged else pa.int64())


def _bind_stddev(a: Aggregate, schema: pa.Schema) -> Accumulator:
    numeric_type(schema, a.columns[0], str(a))
    return StdDev(inputs=a.columns)


def _bind_extreme(a: Aggregate, schema: pa.Schema) -> Accumulator:
    by = a.columns[0]
    kind = orderable_type(schema, by, str(a))
    value = a.columns[1] if len(a.columns) > 1 else None
    output = kind if value is None else column_type(schema, value, str(a))
    largest = a.kind in ("max", "arg_max")
    return Extreme(inputs=a.columns, output=output, by=by, by_type=kind, value=value, largest=largest)


def _bind_first_last(a: Aggregate, schema: pa.Schema) -> Accumulator:
    output = column_type(schema, a.columns[0], str(a))
    return FirstOrLast(inputs=a.columns, output=output, earliest=a.kind == "first")


def _bind_collect(a: Aggregate, schema: pa.Schema) -> Accumulator:
    return Collect(inputs=a.columns, output=pa.list_(column_type(schema, a.columns[0], str(a))))


def _bind_approx_distinct(a: Aggregate, schema: pa.Schema) -> Accumulator:
    hashable_type(schema, a.columns[0], str(a))
    return ApproxDistinct(inputs=a.columns)


def _bind_user(a: Aggregate, schema: pa.Schema) -> Accumulator:
    assert a.user is not None
    column_type(schema, a.columns[0], str(a))
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
