"""Whether a column can be what an aggregate needs; if not, the error says which type it has and what would fit."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, get_args, get_origin

import pyarrow as pa

from framework.core.aggregates.hashing import is_hashable
from framework.core.aggregates.ordering import has_absolute_code, has_rank
from framework.declarations.errors import DeclarationError

_PYTHON_TYPES: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
}


def column_type(schema: pa.Schema, column: str, aggregate_text: str) -> pa.DataType:
    """Return the type of a column; `aggregate_text` is the aggregate as written, for the message."""
    if column in schema.names:
        return schema.field(column).type
    near = difflib.get_close_matches(column, schema.names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise DeclarationError(
        f"{aggregate_text}: there is no column {column!r}; columns are {', '.join(schema.names)}{hint}"
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
    """Return the type of a column whose values can be told apart by a hash."""
    kind = column_type(schema, column, aggregate_text)
    advice = "a number, decimal, boolean, date, time, text or binary; cast it, or count one of its fields"
    return _require_type(kind, is_hashable, column, aggregate_text, advice)


def arrow_type(declared: Any, aggregate_text: str, what: str) -> pa.DataType:
    """Return the Arrow type that a user declared as an Arrow type, its name, or a Python type."""
    if isinstance(declared, pa.DataType):
        return declared
    if isinstance(declared, str):
        try:
            return pa.type_for_alias(declared)
        except ValueError as error:
            raise DeclarationError(
                f"{aggregate_text}: {what} is {declared!r}, which is not the name of an Arrow type"
            ) from error
    if declared in _PYTHON_TYPES:
        return _PYTHON_TYPES[declared]
    if get_origin(declared) is list:
        return pa.list_(arrow_type(get_args(declared)[0], aggregate_text, what))
    raise DeclarationError(
        f"{aggregate_text}: {what} is {declared!r}; it must be a pyarrow type, "
        "or bool, int, float, str, bytes, or list[...] of these"
    )


def state_type(declared: Any, aggregate_text: str) -> pa.DataType:
    """Return the type in which a user aggregate stores its state; refuses one that would round."""
    if declared is None:
        raise DeclarationError(
            f"{aggregate_text}: merge() is defined, so `state` must say what is stored, e.g. `state = float`"
        )
    kind = arrow_type(declared, aggregate_text, "state")
    if _is_lossy(kind):
        raise DeclarationError(
            f"{aggregate_text}: state is {kind}; storing would round it between batches: use 64-bit floats"
        )
    return kind


def _is_lossy(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_is_lossy(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_floating(kind) and kind != pa.float64())


def _require_type(
    kind: pa.DataType, fits: Callable[[pa.DataType], bool], column: str, aggregate_text: str, advice: str
) -> pa.DataType:
    if not fits(kind):
        raise DeclarationError(f"{aggregate_text}: column {column!r} is {kind}; it must be {advice}")
    return kind
