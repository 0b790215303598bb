"""A key is looked for in the key group that Spark has put it into."""

from __future__ import annotations

from datetime import UTC, date, datetime
from math import nan

import pyarrow as pa
import pytest

from panekeeper.state.spark_files.group_of_key import group_of_key

GROUPS = range(1_000_003)
TEXT = "ü€𝄞 long enough to have more than thirty-two bytes in it, twice over"
US = pa.timestamp("us", "UTC")
AT = datetime(2013, 3, 8, 10, 0, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ([pa.scalar("UA")], 951280),
        ([pa.scalar("")], 276811),
        ([pa.scalar(TEXT)], 981941),
        ([pa.scalar(None, pa.string())], 42),
        ([pa.scalar(7, pa.int8())], 580362),
        ([pa.scalar(-7, pa.int16())], 983479),
        ([pa.scalar(-7, pa.int32())], 983479),
        ([pa.scalar(9_000_000_000)], 84026),
        ([pa.scalar(True)], 242920),
        ([pa.scalar(date(2013, 3, 8))], 860042),
        ([pa.scalar(date(1969, 12, 31))], 949515),
        ([pa.scalar(AT, US)], 787117),
        ([pa.scalar(AT, US).cast(pa.timestamp("ns", "UTC"))], 787117),
        ([pa.scalar(nan)], 81917),
        ([pa.scalar(-0.0)], 287889),
        ([pa.scalar(0.0)], 287889),
        ([pa.scalar(1.5)], 965900),
        ([pa.scalar(1.5, pa.float32())], 579347),
        ([pa.scalar(nan, pa.float32())], 632075),
        ([pa.scalar(b"\x00\xff")], 340514),
        ([pa.scalar("UA"), pa.scalar(-7, pa.int32()), pa.scalar(None, pa.string()), pa.scalar(True)], 359810),
        ([], 0),
        ([pa.scalar(1, pa.decimal128(5, 2))], None),
    ],
)
def test_the_group_is_that_of_sparks_hash(key: list[pa.Scalar], expected: int | None) -> None:
    """The numbers are `pmod(xxhash64(...), 1000003)` of Spark 4.2; of a type that is not known here Spark is asked."""
    assert group_of_key(key, GROUPS) == expected
