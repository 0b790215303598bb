"""Rows as JSON, in the form in which Spark's `to_json` writes them and its `from_json` reads them back.

Nulls are written, times with microseconds and in UTC, binary values in base64, NaN and infinities as text. What Python
has no value for is text, too: bad UTF-8, times beyond the year 9999.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

Writer = Callable[[Any], str]


def objects(columns: Mapping[str, pa.ChunkedArray]) -> list[str]:
    """Return the JSON object of each row of some columns, which are of one length.

    >>> objects({"a": pa.chunked_array([[1, None]]), "b": pa.chunked_array([["x", "y"]])})
    ['{"a":1,"b":"x"}', '{"a":null,"b":"y"}']
    """
    fields = [[f"{_string(name)}:{text}" for text in _texts(column)] for name, column in columns.items()]
    return ["{" + ",".join(row) + "}" for row in zip(*fields, strict=True)]


def joined(first: str, second: str) -> str:
    """Return one object with the fields of both.

    >>> joined('{"a":1}', '{"b":2}'), joined("{}", '{"b":2}')
    ('{"a":1,"b":2}', '{"b":2}')
    """
    return "{" + ",".join(filter(None, (first[1:-1], second[1:-1]))) + "}"


def _texts(column: pa.ChunkedArray) -> list[str]:
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError):
        values = [_value(value) for value in column]
    write = _writer(column.type)
    return [write(value) for value in values]


def _value(scalar: Any) -> Any:
    """Return a value as Python has it, or a text in its place."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        if isinstance(scalar, pa.StructScalar):
            return {name: _value(scalar[number]) for number, name in enumerate(scalar.type.names)}
        if isinstance(scalar, pa.MapScalar):
            return [(_value(entry[0]), _value(entry[1])) for entry in scalar.values]
        if isinstance(scalar, pa.ListScalar):
            return [_value(value) for value in scalar.values]
        if pa.types.is_temporal(scalar.type):
            return str(scalar.cast(pa.string()))
        buffer = scalar.as_buffer() if hasattr(scalar, "as_buffer") else None
        return "?" if buffer is None else buffer.to_pybytes().decode(errors="replace")


def _writer(kind: pa.DataType) -> Writer:
    """Return what writes a value of a type, or null."""
    write: Writer = _other
    if pa.types.is_boolean(kind):
        write = _boolean
    elif pa.types.is_integer(kind):
        write = str
    elif kind == pa.float32():
        write = _single
    elif pa.types.is_floating(kind):
        write = _double
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        write = _binary
    elif pa.types.is_map(kind):
        write = partial(_map, _writer(kind.key_type), _writer(kind.item_type))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        write = partial(_list, _writer(kind.value_type))
    elif pa.types.is_struct(kind):
        write = partial(_struct, {field.name: _writer(field.type) for field in kind})
    return lambda value: "null" if value is None else write(value)


def _boolean(value: bool) -> str:  # noqa: FBT001 -- the value that is written
    return "true" if value else "false"


def _single(value: float) -> str:
    return str(np.float32(value)) if math.isfinite(value) else _double(value)


def _double(value: float) -> str:
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return repr(value)


def _binary(value: bytes) -> str:
    return _string(base64.b64encode(value).decode())


def _list(write: Writer, values: list[Any]) -> str:
    return "[" + ",".join(map(write, values)) + "]"


def _struct(fields: Mapping[str, Writer], value: Mapping[str, Any]) -> str:
    return "{" + ",".join(f"{_string(name)}:{write(value[name])}" for name, write in fields.items()) + "}"


def _map(write_key: Writer, write: Writer, entries: list[tuple[Any, Any]]) -> str:
    keys = (write_key(key) for key, _ in entries)
    names = (key if key.startswith('"') else _string(key) for key in keys)
    return "{" + ",".join(f"{name}:{write(value)}" for name, (_, value) in zip(names, entries, strict=True)) + "}"


def _other(value: Any) -> str:
    """Return decimals as numbers, times as text; texts themselves, also those in the place of a value."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if hasattr(value, "hour") and hasattr(value, "year"):
        return _string(value.isoformat(timespec="microseconds").replace("+00:00", "Z"))
    return _string(value.isoformat() if hasattr(value, "isoformat") else str(value))


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
