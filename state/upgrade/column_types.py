"""Types of result columns as a declaration records them: the text of an Arrow type, read back."""

from __future__ import annotations

import re

import pyarrow as pa

_DECIMAL = re.compile(r"decimal128\((\d+), (-?\d+)\)")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=(.+))?\]")
_LIST = re.compile(r"list<(\w+): (.+)>")


def column_type(text: str) -> pa.DataType | None:
    """Return the Arrow type with this text; None for one that is not read back, such as a struct.

    >>> column_type("list<item: decimal128(5, 2)>"), column_type("struct<a: int64>")
    (ListType(list<item: decimal128(5, 2)>), None)
    """
    kind = _parsed(text)
    return kind if str(kind) == text else None


def _parsed(text: str) -> pa.DataType | None:
    if match := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(match[1]), int(match[2]))
    if match := _TIMESTAMP.fullmatch(text):
        return pa.timestamp(match[1], tz=match[2])
    if match := _LIST.fullmatch(text):
        item = column_type(match[2])
        return None if item is None else pa.list_(pa.field(match[1], item))
    try:
        return pa.type_for_alias(text)
    except ValueError:
        return None
