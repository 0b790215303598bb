"""Which accumulator computes a declared aggregate on columns of these types, and does the type of a column fit it?"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pyarrow as pa

from panekeeper.framework.core.aggregates.approx_distinct import ApproxDistinct, is_hashable
from panekeeper.framework.core.aggregates.columns import has_absolute_code, has_rank
from panekeeper.framework.core.aggregates.conditions import OfSomeRows
from panekeeper.framework.core.aggregates.expressions import OfOthers
from panekeeper.framework.core.aggregates.groups import RANK, Groups
from panekeeper.framework.core.aggregates.moments import Comoments, Skewness, Spread
from panekeeper.framework.core.aggregates.protocol import Accumulator
from panekeeper.framework.core.aggregates.selections import Collect, Extreme, FirstOrLast
from panekeeper.framework.core.aggregates.sums import BitOr, CountAccumulator, ExactSum, FloatSum, WeightedMean
from panekeeper.framework.core.aggregates.tallies import Distinct, Histogram, Quantiles, TopK
from panekeeper.framework.core.aggregates.top_rows import TopRows
from panekeeper.framework.core.aggregates.user import UserContentAggregate, UserPartialAggregate
from panekeeper.framework.declarations.aggregates import Aggregate
from panekeeper.framework.declarations.arrow_types import state_type
from panekeeper.framework.declarations.errors import DeclarationError, did_you_mean

_NUMBER = "an integer, a float or a decimal"
_ADDED = "an integer, a float, a decimal or a duration"
_DIGITS_OF_64_BITS, _MOST_DIGITS = 18, 38
_ORDERED = "a type with an order: number, decimal, boolean, date, time, text or binary"
_HASHABLE = "a number, decimal, boolean, date, time, text or binary"


_STATISTICS: dict[str, Callable[[tuple[str, ...]], Accumulator]] = {
    "stddev": lambda columns: Spread(inputs=columns, is_root=True),
    "variance": lambda columns: Spread(inputs=columns, is_root=False),
    "skewness": lambda columns: Skewness(inputs=columns),
    "covariance": lambda columns: Comoments(inputs=columns, is_correlation=False),
    "corr": lambda columns: Comoments(inputs=columns, is_correlation=True),
    "weighted_mean": lambda columns: WeightedMean(inputs=columns),
}


def bind(declared: Aggregate, schema: pa.Schema) -> Accumulator:
    """Return the accumulator of an aggregate for columns of these types.

    Raises:
        DeclarationError: a column that is not there, or whose type does not fit; the error says which types do.
    """
    accumulator = _of_all_rows(declared, schema)
    return accumulator if declared.condition is None else OfSomeRows.wrap(accumulator, declared.condition)


def _of_all_rows(declared: Aggregate, schema: pa.Schema) -> Accumulator:  # noqa: C901, PLR0911, PLR0912 -- one branch a kind
    columns, kind = declared.columns, declared.kind
    types = [_column_type(schema, column, declared) for column in columns]

    def require(fits: Callable[[pa.DataType], bool], advice: str, place: int = 0) -> pa.DataType:
        column, of_column = columns[place], types[place]
        if not fits(of_column):
            cast = _cast_to_fit(column, of_column, kind)
            raise DeclarationError(f"{declared}: column {column!r} is {of_column}; it must be {advice}{cast}")
        return of_column

    match kind:
        case "count":
            return CountAccumulator(inputs=columns)
        case "sum" | "mean":
            return _sum(columns, require(_can_be_added, _ADDED), mean=kind == "mean")
        case "stddev" | "variance" | "skewness" | "covariance" | "corr" | "weighted_mean":
            for place in range(len(columns)):
                require(_is_number, _NUMBER, place)
            return _STATISTICS[kind](columns)
        case "bit_or":
            return BitOr(inputs=columns, output=require(pa.types.is_integer, "an integer"))
        case "max" | "min" | "arg_max" | "arg_min" | "any" | "all":
            if kind in ("any", "all"):
                require(pa.types.is_boolean, "a boolean")
            by_type = require(_has_order, _ORDERED)
            return Extreme(
                inputs=columns,
                output=types[-1],
                by=columns[0],
                by_type=by_type,
                value=columns[1] if len(columns) > 1 else None,
                largest=kind.endswith("max") or kind == "any",
            )
        case "groups":
            return _groups(declared, schema, require)
        case "expr":
            return _expression(declared, schema)
        case "top_k" | "quantiles" | "histogram":
            return _tally(declared, types[0], require)
        case "top_rows" | "first_row" | "last_row":
            return _top_rows(declared, schema, require)
        case "first" | "last":
            return FirstOrLast(inputs=columns, output=types[0], earliest=kind == "first")
        case "collect":
            return Collect(inputs=columns, output=pa.list_(types[0]))
        case "approx_distinct":
            require(is_hashable, _HASHABLE)
            return ApproxDistinct(inputs=columns)
        case "count_distinct":
            require(is_hashable, _HASHABLE)
            options = dict(declared.options)
            return Distinct(
                inputs=columns,
                declared=str(declared),
                kind=types[0],
                at_most=options["at_most"],
                estimates=options["beyond"] == "approximate",
            )
    user = declared.user
    assert user is not None
    if declared.needs_content:
        return UserContentAggregate(inputs=columns, output=declared.output, user=user)
    stored = state_type(user.state, str(declared))
    return UserPartialAggregate(inputs=columns, output=declared.output, user=user, kind=stored)


def _groups(declared: Aggregate, schema: pa.Schema, require: Callable[..., pa.DataType]) -> Accumulator:
    options = dict(declared.options)
    parts = tuple(bind(part, schema) for part in declared.parts)
    for place in range(len(declared.columns)):
        require(_has_order, _ORDERED, place)
    keys = pa.schema([pa.field(name, schema.field(name).type) for name in declared.columns])
    by = None if options["by"] is None else options["names"].index(options["by"])
    if by is not None and not _has_order(parts[by].output):
        raise DeclarationError(f"by is {options['by']!r}, which is {parts[by].output}; it must be {_ORDERED}")
    results = [pa.field(name, part.output) for name, part in zip(options["names"], parts, strict=True)]
    return Groups(
        inputs=declared.read_columns,
        output=pa.list_(pa.struct([*keys, *results, pa.field(RANK, pa.int32())])),
        keys=keys,
        parts=parts,
        by=by,
        falls=options["falls"],
        top=options["top"],
    )


def _expression(declared: Aggregate, schema: pa.Schema) -> Accumulator:
    assert declared.term is not None
    parts = tuple(bind(part, schema) for part in declared.parts)
    for argument, part in zip(declared.parts, parts, strict=True):
        if part.needs_content or not (_is_number(part.output) or pa.types.is_boolean(part.output)):
            raise DeclarationError(f"{declared}: {argument} is {part.output}, and no number or boolean")
    output = pa.bool_() if declared.term.is_boolean else pa.float64()
    inputs = declared.read_columns
    return OfOthers(inputs=inputs, output=output, parts=parts, term=declared.term)


def _tally(declared: Aggregate, kind: pa.DataType, require: Callable[..., pa.DataType]) -> Accumulator:
    options, columns = dict(declared.options), declared.columns
    text = str(declared)
    if declared.kind == "top_k":
        require(is_hashable, _HASHABLE)
        output = pa.list_(pa.struct([(columns[0], kind), ("count", pa.int64())]))
        return TopK(inputs=columns, declared=text, kind=kind, output=output, at_most=options["at_most"], k=options["k"])
    if declared.kind == "histogram":
        require(_is_number, _NUMBER)
        bins = {"kind": pa.int32(), "output": pa.list_(pa.int64()), "edges": options["edges"]}
        return Histogram(inputs=columns, declared=text, at_most=None, **bins)
    is_exact = options["exact"]
    require(_has_order, _ORDERED) if is_exact else require(_is_number, _NUMBER)
    return Quantiles(
        inputs=columns,
        declared=text,
        kind=kind if is_exact else pa.int32(),
        output=pa.list_(kind if is_exact else pa.float64()),
        at_most=None,
        ranks=tuple(Fraction(rank).limit_denominator(10**9) for rank in options["ranks"]),
        is_exact=is_exact,
        is_whole=pa.types.is_integer(kind),
    )


def _top_rows(declared: Aggregate, schema: pa.Schema, require: Callable[..., pa.DataType]) -> Accumulator:
    options = dict(declared.options)
    falling = options["falling"]
    shown = declared.columns[len(falling) :]
    by_types = tuple(require(_has_order, _ORDERED, place) for place in range(len(falling)))
    row = pa.struct([schema.field(name).with_nullable(True).remove_metadata() for name in shown])
    is_single = declared.kind != "top_rows"
    return TopRows(
        inputs=declared.columns,
        output=row if is_single else pa.list_(row),
        by=tuple(zip(declared.columns, falling, strict=False)),
        by_types=by_types,
        row=row,
        k=options["k"],
        is_single=is_single,
    )


def _sum(columns: tuple[str, ...], kind: pa.DataType, *, mean: bool) -> Accumulator:
    """Return the sum or mean of values of a type, whose result has the type that it has in Spark."""
    if pa.types.is_floating(kind):
        return FloatSum(inputs=columns, mean=mean)
    if pa.types.is_duration(kind):
        return ExactSum(inputs=columns, mean=mean, output=kind)
    if not pa.types.is_decimal(kind):
        return ExactSum(inputs=columns, mean=mean, output=pa.float64() if mean else pa.int64())
    more, more_digits = (4, 4) if mean else (10, 0)
    scale = min(kind.scale + more_digits, _MOST_DIGITS)
    return ExactSum(
        inputs=columns,
        mean=mean,
        output=pa.decimal128(min(kind.precision + more, _MOST_DIGITS), scale),
        words=2 if kind.precision <= _DIGITS_OF_64_BITS else 4,
        further_digits=scale - kind.scale,
    )


def _column_type(schema: pa.Schema, column: str, declared: Aggregate) -> pa.DataType:
    if column in schema.names:
        return schema.field(column).type
    raise DeclarationError(
        f"{declared}: there is no column {column!r}; columns are {', '.join(schema.names)}"
        f"{did_you_mean(column, schema.names)}"
    )


def _cast_to_fit(column: str, of_column: pa.DataType, kind: str) -> str:
    """Return what makes a column fit the aggregate, as code; empty if nothing does."""
    types, cast = pa.types, ""
    if kind in ("approx_distinct", "count_distinct", "top_k"):
        cast = f'F.to_json("{column}")' if types.is_nested(of_column) else ""
    elif kind not in ("sum", "mean", "quantiles", "histogram", *_STATISTICS):
        cast = ""
    elif types.is_string(of_column):
        cast = f'F.col("{column}").try_cast("double")'
    elif types.is_boolean(of_column):
        cast = f'F.col("{column}").cast("int")'
    elif types.is_timestamp(of_column):
        cast = f'F.unix_micros(F.col("{column}").cast("timestamp"))'
    elif types.is_date(of_column):
        cast = f'F.unix_date("{column}")'
    return f': df.withColumn("{column}", {cast})' if cast else ""


def _has_order(kind: pa.DataType) -> bool:
    return has_absolute_code(kind) or has_rank(kind)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal128(kind))


def _can_be_added(kind: pa.DataType) -> bool:
    return _is_number(kind) or bool(pa.types.is_duration(kind))
