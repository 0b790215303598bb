"""Rows as JSON that Spark reads back."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from panekeeper.framework.core.row_json import objects

AT = datetime(2024, 3, 10, 2, 30, 0, 5, UTC)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.bool_(), True, "true"),
        (pa.int8(), -5, "-5"),
        (pa.int64(), 2**63 - 1, "9223372036854775807"),
        (pa.float32(), 0.1, "0.1"),
        (pa.float64(), 1e300, "1e+300"),
        (pa.float64(), math.nan, '"NaN"'),
        (pa.float32(), -math.inf, '"-Infinity"'),
        (pa.decimal128(38, 10), Decimal("12345678901234567890.0123456789"), "12345678901234567890.0123456789"),
        (pa.decimal128(10, 2), Decimal("1E+3"), "1000.00"),
        (pa.string(), 'ü "quoted"\n', '"ü \\"quoted\\"\\n"'),
        (pa.binary(), b"\x00\xff", '"AP8="'),
        (pa.date32(), date(1, 2, 3), '"0001-02-03"'),
        (pa.timestamp("us", tz="UTC"), AT, '"2024-03-10T02:30:00.000005Z"'),
        (pa.timestamp("us"), AT.replace(tzinfo=None), '"2024-03-10T02:30:00.000005"'),
        (pa.list_(pa.float64()), [1.5, None, math.inf], '[1.5,null,"Infinity"]'),
        (pa.map_(pa.string(), pa.binary()), [("a", b"x"), ("b", None)], '{"a":"eA==","b":null}'),
        (pa.map_(pa.int32(), pa.bool_()), [(7, False)], '{"7":false}'),
        (pa.struct([("a b", pa.int32()), ("at", pa.date32())]), {"a b": 1, "at": None}, '{"a b":1,"at":null}'),
    ],
    ids=str,
)
def test_a_value_is_written_as_spark_writes_it(kind: pa.DataType, value: Any, text: str) -> None:
    """So that `from_json` has the row again; a null of each type is null."""
    (first, second) = objects({"v": pa.chunked_array([pa.array([value, None], kind)])})
    assert first == f'{{"v":{text}}}'
    assert json.loads(second) == {"v": None}


def test_what_python_has_no_value_for_is_text() -> None:
    """A time after the year 9999, and text that is no UTF-8, also within a struct, a list or a map."""
    far = pa.array([253_402_300_800_000_000], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    broken = pa.Array.from_buffers(pa.string(), 1, [None, *pa.array([b"a\xff"]).buffers()[1:]])
    offsets = pa.array([0, 1], pa.int32())
    columns = {
        "far": far,
        "broken": broken,
        "struct": pa.StructArray.from_arrays([far, broken], ["at", "text"]),
        "list": pa.ListArray.from_arrays(offsets, broken),
        "map": pa.MapArray.from_arrays(offsets, pa.array(["k"]), far),
    }
    (text,) = objects({name: pa.chunked_array([one]) for name, one in columns.items()})
    row = json.loads(text)
    assert row["far"] == row["struct"]["at"] == row["map"]["k"]
    assert row["far"].startswith("10000-01-01")
    assert row["broken"] == row["struct"]["text"] == row["list"][0] == "a\ufffd"
