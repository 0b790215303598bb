"""Columns of rows get their declared types, also where Arrow's own cast refuses what Spark sends."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from panekeeper.state.codec import nullable_inside, with_columns
from panekeeper.state.user_values import from_json, to_json

STRICT = pa.struct([pa.field("x", pa.int32(), nullable=False)])
FREE = pa.struct([pa.field("x", pa.int32())])


def null_struct() -> pa.Array:
    """A null struct as Spark sends it: there is a null under it, where none may be."""
    ones = pa.array([1, None], pa.int32())
    return pa.StructArray.from_arrays([ones], fields=[STRICT.field(0)], mask=pa.array([False, True]))


@pytest.mark.parametrize("kind", [STRICT, FREE, pa.struct([pa.field("x", pa.int64(), nullable=False)])])
def test_a_struct_with_fields_that_are_not_null_may_be_null(kind: pa.DataType) -> None:
    """Whether it has its type already, or not."""
    rows = pa.table({"other": [1, 2], "z": null_struct()})
    done = with_columns(rows, pa.schema([pa.field("z", kind)]))
    assert done.schema.field("z").type == kind
    assert done.column("z").to_pylist() == [{"x": 1}, None]


def test_rows_without_columns_keep_their_number() -> None:
    """Those of a job without partition columns."""
    assert with_columns(pa.table({"v": [1, 2]}), pa.schema([])).num_rows == 2


def test_a_value_that_does_not_fit_is_an_error() -> None:
    """As with Arrow's cast."""
    with pytest.raises(pa.ArrowInvalid, match=r"out of bounds|not in range"):
        with_columns(pa.table({"v": [2**40]}), pa.schema([("v", pa.int32())]))


def test_all_within_a_type_can_be_nullable() -> None:
    """At any depth; the type itself is that of its column."""
    strict = pa.struct([pa.field("m", pa.map_(pa.string(), pa.list_(STRICT)), nullable=False)])
    free = pa.struct([pa.field("m", pa.map_(pa.string(), pa.list_(FREE)))])
    assert nullable_inside(strict) == free
    assert nullable_inside(pa.int64()) == pa.int64()


@pytest.mark.parametrize("value", [*map(np.float64, ("nan", "inf", "-inf", "1.5")), float("nan")])
def test_floats_of_numpy_come_back_as_such(value: float) -> None:
    """They divide by zero, as floats of Python do not."""
    assert repr(from_json(to_json(value))) == repr(value)


def test_nanoseconds_are_not_cut_off() -> None:
    """Python's durations are of microseconds."""
    with pytest.raises(TypeError, match="cannot represent"):
        to_json(pd.Timedelta(1500))
    assert from_json(to_json(pd.Timedelta(2000))) == pd.Timedelta(2000).to_pytimedelta()
