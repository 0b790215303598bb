"""Arrow types as a user writes them: an Arrow type, the name of one, or a Python type; and which values they take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, time, timedelta
from decimal import Decimal
from typing import Any, get_args, get_origin

import numpy as np
import pyarrow as pa

from panekeeper.framework.declarations.errors import DeclarationError

_PYTHON_TYPES: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
}


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
            f"{aggregate_text}: state is {kind}; storing would round it between batches: use 64-bit floats, and times "
            "in microseconds"
        )
    return kind


def _is_lossy(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_is_lossy(kind.field(place).type) for place in range(kind.num_fields))
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return kind.unit in ("s", "ms")
    return bool((pa.types.is_floating(kind) and kind != pa.float64()) or pa.types.is_time32(kind))


def may_be_cut_off(kind: pa.DataType) -> bool:
    """Return whether Arrow makes values of a type of more than they hold: whole numbers, structs, or some in them.

    A map is looked at, too: an entry that is null ends the process.
    """
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        return True
    if pa.types.is_nested(kind):
        return any(may_be_cut_off(kind.field(place).type) for place in range(kind.num_fields))
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def require_nothing_cut_off(values: Iterable[Any], kind: pa.DataType) -> None:
    """Refuse what Arrow would cut off without an error: 1.5 is no integer, and no time; a struct has its fields only.

    Args:
        values: of which an array of this type is to be made.
        kind: the type.

    Raises:
        pa.ArrowInvalid: a number that is to become a whole one is none, a time that is to become a date has a time of
            day, a struct has no field of a name, or a map has an entry that is no pair; or it is so for one in a list,
            a struct or a map.
    """
    if not may_be_cut_off(kind):
        return
    if not pa.types.is_nested(kind):
        for value in values:
            if not _is_whole(value):
                raise pa.ArrowInvalid(f"{value} is no whole number, and would be cut off to be of type {kind}")
            if getattr(value, "nanosecond", 0) or (isinstance(value, timedelta) and getattr(value, "nanoseconds", 0)):
                raise pa.ArrowInvalid(f"{value} has nanoseconds, which would be cut off to be of type {kind}")
            if pa.types.is_date(kind) and isinstance(value, datetime) and value.time() != time():
                raise pa.ArrowInvalid(f"{value} has a time of day, which would be cut off to be of type {kind}")
        return
    for value in values:
        for part, inner in _parts(value, kind):
            require_nothing_cut_off(part, inner)


def require_no_field_left_out(given: pa.DataType, kind: pa.DataType) -> None:
    """Refuse a struct with a field that the declared one does not have: Arrow's cast leaves it out without an error.

    Args:
        given: the type of a column that was emitted as a whole.
        kind: the declared type.

    Raises:
        DeclarationError: there is such a field, at any depth.
    """
    if pa.types.is_struct(given) and pa.types.is_struct(kind):
        declared = {kind.field(place).name: kind.field(place).type for place in range(kind.num_fields)}
        for field in (given.field(place) for place in range(given.num_fields)):
            if field.name not in declared:
                raise DeclarationError(f"the operator emitted {given}, whose {field.name!r} is no field of {kind}")
            require_no_field_left_out(field.type, declared[field.name])
    elif pa.types.is_nested(given) and pa.types.is_nested(kind) and given.num_fields == kind.num_fields:
        for place in range(given.num_fields):
            require_no_field_left_out(given.field(place).type, kind.field(place).type)


def has_void_inside(kind: pa.DataType) -> bool:
    """Return whether there is a void, the type of a NULL without one, within a type.

    >>> has_void_inside(pa.list_(pa.null())), has_void_inside(pa.null())
    (True, False)
    """
    inner = [kind.field(place).type for place in range(kind.num_fields)]
    return any(pa.types.is_null(one) or has_void_inside(one) for one in inner)


def _is_whole(value: Any) -> bool:
    if isinstance(value, float | np.floating):
        return float(value).is_integer()
    return not isinstance(value, Decimal) or value == value.to_integral_value()


def _parts(value: Any, kind: pa.DataType) -> list[tuple[Iterable[Any], pa.DataType]]:
    """Return the values in a nested one, with their types; nothing for what does not fit: Arrow refuses that."""
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        if isinstance(value, tuple):
            return [([one], field.type) for one, field in zip(value, fields, strict=False)]
        named = dict(_pairs(value))
        if unknown := [name for name in named if name not in {field.name for field in fields}]:
            raise pa.ArrowInvalid(f"{value} has {unknown[0]!r}, which is no field of {kind}, and would be left out")
        return [([named.get(field.name)], field.type) for field in fields]
    if pa.types.is_map(kind):
        if _is_list(value) and not all(isinstance(one, tuple | Mapping) for one in value):
            raise pa.ArrowInvalid(f"{value} has an entry that is no pair of a key and a value, as {kind} takes")
        pairs = _pairs(value)
        return [([key for key, _ in pairs], kind.key_type), ([item for _, item in pairs], kind.item_type)]
    return [(value, kind.value_type)] if _is_list(value) and hasattr(kind, "value_type") else []


def _pairs(value: Any) -> list[tuple[Any, Any]]:
    pairs = [*(value.items() if isinstance(value, Mapping) else value if _is_list(value) else ())]
    return [tuple(pair) for pair in pairs if _is_list(pair) and len(pair) == 2]  # noqa: PLR2004 -- key and value


def _is_list(value: Any) -> bool:
    """Return whether Arrow takes a value for a list: also a pandas.Series, a set, a deque, the values of a dict."""
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray | memoryview | Mapping)
