"""Does the type of a column fit an aggregate? If not, the error says which type it has and which would fit."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from panekeeper.framework.core.aggregates.hashing import is_hashable
from panekeeper.framework.core.aggregates.ordering import has_absolute_code, has_rank
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.suggestions import did_you_mean


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
