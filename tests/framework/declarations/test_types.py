"""Types by the names of Arrow, Spark and Python, and values of a map as dicts."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from panekeeper import DeclarationError, Tumbling, agg
from panekeeper.framework.builder.result_columns import output_schema, require_type_of_spark
from panekeeper.framework.declarations.arrow_types import arrow_type, named_columns, named_type
from panekeeper.framework.declarations.events import Event, EventType
from panekeeper.framework.declarations.policies import Count
from panekeeper.state.store import MemoryStore
from tests.framework.core.quarantine_batches import job, rows, run, values

UTC = pa.timestamp("us", tz="UTC")
NAMES = {
    "double": pa.float64(),
    "float64": pa.float64(),
    "BIGINT": pa.int64(),
    "int64": pa.int64(),
    "long": pa.int64(),
    "int": pa.int32(),
    "tinyint": pa.int8(),
    "float": pa.float32(),
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "varchar(10)": pa.string(),
    "date": pa.date32(),
    "timestamp": UTC,
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp[us, tz=UTC]": UTC,
    "timestamp[us]": pa.timestamp("us"),
    "decimal(10,2)": pa.decimal128(10, 2),
    "decimal128(10, 2)": pa.decimal128(10, 2),
    "decimal": pa.decimal128(10, 0),
    "interval day to second": pa.duration("us"),
    "INTERVAL HOUR": pa.duration("us"),
    "interval minute  to second": pa.duration("us"),
    "duration[us]": pa.duration("us"),
    "array<interval day>": pa.list_(pa.duration("us")),
    "array<string>": pa.list_(pa.string()),
    "list<item: int64>": pa.list_(pa.int64()),
    "map<string, array<int>>": pa.map_(pa.string(), pa.list_(pa.int32())),
    "struct<a: bigint, `b`: struct<c decimal(5, 1)>>": pa.struct(
        [("a", pa.int64()), ("b", pa.struct([("c", pa.decimal128(5, 1))]))]
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_type_is_named_as_arrow_or_spark_names_it(name: str) -> None:
    """Both in `agg.user(output=)` and in `.operator(output=)`, whatever is within."""
    assert named_type(name) == NAMES[name]
    assert agg.user(Last(), "x", output=name).output == NAMES[name]
    assert named_columns(f"a {name}, `b` int64") == pa.schema([("a", NAMES[name]), ("b", pa.int64())])


@pytest.mark.parametrize("kind", [one for one in NAMES.values() if "tz" not in str(one)], ids=str)
def test_a_type_of_arrow_can_be_written_as_arrow_shows_it(kind: pa.DataType) -> None:
    """What a message or a declaration shows can be given."""
    assert named_type(str(kind).replace("date32[day]", "date32")) == kind


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        (spark.DoubleType(), pa.float64()),
        (spark.LongType, pa.int64()),
        (spark.DayTimeIntervalType(), pa.duration("us")),
        (spark.ArrayType(spark.StringType()), pa.list_(pa.string())),
        (list[float], pa.list_(pa.float64())),
        (dict[str, int], pa.map_(pa.string(), pa.int64())),
        (pa.int8(), pa.int8()),
    ],
    ids=str,
)
def test_a_type_itself_is_one_of_arrow_spark_or_python(declared: Any, kind: pa.DataType) -> None:
    """Also a class of Spark's in place of an instance."""
    assert arrow_type(declared, "agg.user", "output") == kind


@pytest.mark.parametrize(
    "declared",
    [
        "dubble",
        "array<",
        "map<int>",
        "struct<a>",
        "interval",
        "interval month",
        "interval hour to day",
        "",
        7,
        None,
        object(),
        [float],
        {},
    ],
)
def test_what_is_no_type_is_refused_with_what_is(declared: Any) -> None:
    """Each name that the message has is one."""
    with pytest.raises(DeclarationError, match=r'^agg.user: output is .*such as "double" or "array<string>"'):
        arrow_type(declared, "agg.user", "output")


COLUMNS = pa.schema([("spread", pa.float64()), ("n", pa.int64())])


@pytest.mark.parametrize(
    "output",
    [
        COLUMNS,
        "spread float64, n int64",
        {"spread": float, "n": "bigint"},
        spark.StructType([spark.StructField("spread", spark.DoubleType()), spark.StructField("n", spark.LongType())]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_columns_of_an_operator_are_declared_by_any_of_them(output: Any) -> None:
    """A schema of Arrow or Spark, names with types, or a text with the names of either."""
    assert output_schema(output) == COLUMNS


@pytest.mark.parametrize("output", ["spread", "spread dubble", 7, None, {"n": "dubble"}, ["n"], float])
def test_an_output_that_is_no_columns_is_refused(output: Any) -> None:
    """The message has columns that can be given as they are printed."""
    with pytest.raises(DeclarationError, match="write columns as SQL does") as caught:
        output_schema(output)
    assert named_columns(str(caught.value).split('"')[1]) == COLUMNS


@pytest.mark.parametrize("kind", ["uint64", "halffloat", "list<item: uint8>"])
def test_a_result_of_a_type_that_spark_does_not_have_is_refused(kind: str) -> None:
    """Where it is declared, not by the first batch; each type that the message has in its place is one of Spark's."""
    with pytest.raises(DeclarationError, match=r"'n' is of .*, a type that Spark does not have") as caught:
        require_type_of_spark(pa.field("n", named_type(kind)))
    for name in str(caught.value).split("such as ")[1].replace(" or ", ", ").split(", "):
        require_type_of_spark(pa.field("n", named_type(name.strip('"'))))


class Last(agg.UserAggregate):
    """The last value."""

    def zero(self) -> Any:
        return None

    def add(self, state: Any, value: Any) -> Any:
        return value

    def result(self, state: Any) -> Any:
        return state


class Counts(agg.UserAggregate):
    """How often each value came, in a map."""

    state: ClassVar[Any] = dict[str, int]

    def zero(self) -> dict[str, int]:
        return {}

    def add(self, state: dict[str, int], value: int) -> dict[str, int]:
        return state | {str(value): state.get(str(value), 0) + 1}

    def merge(self, a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
        return {name: a.get(name, 0) + b.get(name, 0) for name in a | b}

    def result(self, state: dict[str, int]) -> int:
        return 10 * state["7"] + state["8"]


def test_a_map_is_a_dict_for_code_of_the_users() -> None:
    """As a state after each row and each restart, and as a value of a row; nested ones, too."""
    spec = job(Tumbling(Count(3)), seen=agg.user(Counts(), "v", output="bigint"))
    store = MemoryStore()
    for value in (7, 8):
        run(spec, store, rows(("a", value)))
        store = store.copy()
    assert values(run(spec, store, rows(("a", 7))), "seen") == {"a": [21]}
    maps = pa.array([{"x": [{"y": 1}]}, None], named_type("map<string, array<map<string, int>>>"))
    event = Event(EventType.TRIGGER, None, lambda: pa.table({"m": maps}))
    assert event.rows() == [{"m": {"x": [{"y": 1}]}}, {"m": None}]
