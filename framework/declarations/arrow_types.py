"""Types as a user writes them, of Arrow, Spark or Python, or by name; which values they take, and give back."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, time, timedelta
from decimal import Decimal
from itertools import combinations
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
_UNITS_OF_DAYS = ("day", "hour", "minute", "second")
_SPARK_NAMES = {
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "real": pa.float32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    **dict.fromkeys((f"interval {unit}" for unit in _UNITS_OF_DAYS), pa.duration("us")),
    **dict.fromkeys(
        (f"interval {first} to {last}" for first, last in combinations(_UNITS_OF_DAYS, 2)), pa.duration("us")
    ),
}
_NESTED = re.compile(r"(array|list|map|struct)\s*<(.*)>", re.IGNORECASE | re.DOTALL)
_DECIMAL = re.compile(r"(?:decimal|decimal128|dec|numeric)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", re.IGNORECASE)
_TEXT = re.compile(r"(?:varchar|char)\s*\(\s*\d+\s*\)", re.IGNORECASE)
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns), ?tz=([^\]]+)\]")
_FIELD = re.compile(r"\s*(`[^`]+`|\w+)\s*[:\s]\s*(.+)", re.DOTALL)
_EXAMPLES = 'give a type of Arrow or Spark, the name of one, such as "double" or "array<string>", or a Python type'


def arrow_type(declared: Any, aggregate_text: str, what: str) -> pa.DataType:
    """Return the Arrow type that a user declared as a type of Arrow, Spark or Python, or as the name of one."""
    try:
        return _arrow_type(declared)
    except (ValueError, TypeError) as error:
        raise DeclarationError(f"{aggregate_text}: {what} is {declared!r}; {_EXAMPLES}") from error


def _arrow_type(declared: Any) -> pa.DataType:
    if isinstance(declared, pa.DataType):
        return declared
    if isinstance(declared, str):
        return named_type(declared)
    if get_origin(declared) in (list, dict):
        inner = [_arrow_type(argument) for argument in get_args(declared)]
        return pa.list_(*inner) if get_origin(declared) is list else pa.map_(*inner)
    if hasattr(declared, "simpleString"):  # of Spark, which is not imported here; by its class as well
        return named_type((declared() if isinstance(declared, type) else declared).simpleString())
    if declared in _PYTHON_TYPES:
        return _PYTHON_TYPES[declared]
    raise TypeError(f"{declared!r} is no type")


def named_type(name: str) -> pa.DataType:
    """Return the type of a name, as Spark or as Arrow writes it.

    Raises:
        ValueError: neither has a type of this name.

    >>> str(named_type("array<struct<a: bigint, b decimal(10, 2)>>"))
    'list<item: struct<a: int64, b: decimal128(10, 2)>>'
    """
    name = name.strip()
    if nested := _NESTED.fullmatch(name):
        outer, inner = nested[1].lower(), _split_at_commas(nested[2])
        if outer == "struct":
            return pa.struct(_named_fields(inner))
        if len(inner) != (2 if outer == "map" else 1):
            raise ValueError(f"{name!r} has {len(inner)} types within")
        within = [named_type(text.strip().removeprefix("item:").removeprefix("element:")) for text in inner]
        return pa.map_(*within) if outer == "map" else pa.list_(*within)
    if decimal := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(decimal[1] or 10), int(decimal[2] or 0))
    if _TEXT.fullmatch(name):
        return pa.string()
    if zoned := _TIMESTAMP.fullmatch(name):
        return pa.timestamp(zoned[1], tz=zoned[2])
    return _SPARK_NAMES.get(" ".join(name.lower().split())) or pa.type_for_alias(name.lower())


def named_columns(text: str) -> pa.Schema:
    """Return columns that are written as names and types, `"spread double, n int64"`.

    Raises:
        ValueError: a column without a type, or with one that is not known.
    """
    return pa.schema(_named_fields(_split_at_commas(text)))


def _named_fields(texts: Iterable[str]) -> list[pa.Field]:
    fields = []
    for text in texts:
        if (named := _FIELD.fullmatch(text)) is None:
            raise ValueError(f"{text.strip()!r} is no name with a type")
        fields.append(pa.field(named[1].strip("`"), named_type(named[2])))
    return fields


def _split_at_commas(text: str) -> list[str]:
    """Return the parts between the commas that are in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def python_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return values as Python has them: a map is a dict, not a list of pairs."""
    values: list[Any] = array.to_pylist()
    return [_with_dicts(value, array.type) for value in values] if _has_map(array.type) else values


def python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows of a table, by column name, as Python has their values."""
    columns = [python_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _has_map(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_has_map(kind.field(place).type) for place in range(kind.num_fields))


def _with_dicts(value: Any, kind: pa.DataType) -> Any:
    if value is None or not _has_map(kind):
        return value
    if pa.types.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    if not pa.types.is_map(kind):
        return [_with_dicts(inner_value, kind.value_type) for inner_value in value]
    pairs = [(key, _with_dicts(item, kind.item_type)) for key, item in value]
    return pairs if pa.types.is_nested(kind.key_type) else dict(pairs)  # a struct can be no key of a dict


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
    return any(pa.types.is_null(inner_type) or has_void_inside(inner_type) for inner_type in inner)


def _is_whole(value: Any) -> bool:
    if isinstance(value, float | np.floating):
        return float(value).is_integer()
    return not isinstance(value, Decimal) or value == value.to_integral_value()


def _parts(value: Any, kind: pa.DataType) -> list[tuple[Iterable[Any], pa.DataType]]:
    """Return the values in a nested one, with their types; nothing for what does not fit: Arrow refuses that."""
    if pa.types.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        if isinstance(value, tuple):
            return [([field_value], field.type) for field_value, field in zip(value, fields, strict=False)]
        named = dict(_pairs(value))
        if unknown := [name for name in named if name not in {field.name for field in fields}]:
            raise pa.ArrowInvalid(f"{value} has {unknown[0]!r}, which is no field of {kind}, and would be left out")
        return [([named.get(field.name)], field.type) for field in fields]
    if pa.types.is_map(kind):
        if _is_list(value) and not all(isinstance(pair, tuple | Mapping) for pair in value):
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
