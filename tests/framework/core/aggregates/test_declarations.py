"""What `agg` accepts, what it refuses, and what the refusal says."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from panekeeper import agg
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.declarations.errors import DeclarationError, InputError

SCHEMA = pa.schema(
    {
        "delay": pa.int32(),
        "price": pa.decimal128(10, 2),
        "flight": pa.string(),
        "stops": pa.list_(pa.string()),
        "ok": pa.bool_(),
    }
)


class Total(agg.UserAggregate):
    """A sum, in the plainest way."""

    state: ClassVar[Any] = float

    def __init__(self, start: float = 0.0) -> None:
        self.start = start
        self.helper = object()

    def zero(self) -> Any:
        return self.start

    def add(self, state: Any, value: Any) -> Any:
        return state + value

    def merge(self, a: Any, b: Any) -> Any:
        return a + b

    def result(self, state: Any) -> Any:
        return state


class Unstored(Total):
    state = None


class Rounded(Total):
    state = pa.list_(pa.float32())


class Unmerged(Total):
    merge = agg.UserAggregate.merge


class Unfinished(agg.UserAggregate):
    def zero(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (agg.max("dealy"), r"agg\.max\('dealy'\): there is no column 'dealy'.*did you mean 'delay'\?"),
        (agg.count("zzz"), r"columns are delay, price, flight, stops, ok$"),
        (agg.mean("flight"), r"column 'flight' is string; it must be .* or a duration: df.*\.try_cast\(\"double\"\)"),
        (agg.sum("ok"), r"column 'ok' is bool; it must be an integer.*cast\(\"int\"\)\)$"),
        (agg.stddev("ok"), r"column 'ok' is bool; it must be an integer, a float or a decimal: df"),
        (agg.max("stops"), r"column 'stops' is list<.*a type with an order"),
        (agg.arg_max("stops", "flight"), r"agg\.arg_max\('stops', 'flight'\): column 'stops'"),
        (agg.arg_min("delay", "nothing"), r"there is no column 'nothing'"),
        (agg.approx_distinct("stops"), r"column 'stops'.*F\.to_json\(\"stops\"\)\)$"),
        (agg.count_distinct("stops"), r"column 'stops'.*F\.to_json\(\"stops\"\)\)$"),
        (agg.any("delay"), r"column 'delay' is int32; it must be a boolean$"),
        (agg.bit_or("ok"), r"column 'ok' is bool; it must be an integer$"),
        (agg.corr("delay", "flight"), r"column 'flight' is string; it must be an integer, a float or a decimal: df"),
        (agg.weighted_mean("ok", "delay"), r"column 'ok' is bool; it must be an integer, a float or a decimal: df"),
        (agg.skewness("flight"), r"column 'flight' is string; it must be an integer, a float or a decimal: df"),
        (agg.top_rows(k=1, by="delay, stops desc"), r"column 'stops' is list<.*a type with an order"),
        (agg.first_row(by="at"), r"there is no column 'at'"),
        (agg.last_row(by="delay", columns=["gate"]), r"there is no column 'gate'"),
        (agg.top_k("stops", k=1), r"column 'stops'.*F\.to_json\(\"stops\"\)\)$"),
        (agg.quantiles("flight", [0.5]), r"column 'flight' is string; it must be an integer, a float or a decimal: df"),
        (agg.quantiles("stops", [0.5], exact=True), r"column 'stops' is list<.*a type with an order"),
        (agg.histogram("ok", [1]), r"column 'ok' is bool; it must be an integer, a float or a decimal: df"),
        (agg.user(Total(), "nothing"), r"agg\.user\(Total, 'nothing'\): there is no column"),
    ],
    ids=str,
)
def test_a_column_that_does_not_fit_is_refused_when_bound(declared: agg.Aggregate, message: str) -> None:
    """The message names the aggregate, the column, its type, and what would fit."""
    with pytest.raises(DeclarationError, match=message):
        bind(declared, SCHEMA)


def test_a_user_aggregate_that_cannot_work_is_refused_when_declared() -> None:
    """Missing methods, an unknown or rounding state and an unknown output each say what to write."""
    with pytest.raises(DeclarationError, match=r"agg\.user\(Unfinished, 'x'\): the class does not define add\(\)"):
        agg.user(Unfinished(), "x")
    with pytest.raises(DeclarationError, match=r"`state` must say what is stored"):
        agg.user(Unstored(), "x")
    with pytest.raises(DeclarationError, match=r"use 64-bit floats"):
        agg.user(Rounded(), "x")
    with pytest.raises(DeclarationError, match=r"output is 'dubble'"):
        agg.user(Total(), "x", output="dubble")
    with pytest.raises(DeclarationError, match=r"must be an instance"):
        agg.user(Total, "x")  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match=r"agg\.sum takes names of columns, .* not 7;"):
        agg.sum(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("avg", "; did you mean 'mean'?"),
        ("countDistinct", "; did you mean 'count_distinct'?"),
        ("colect", "; did you mean 'collect'?"),
        ("percentile", "; did you mean 'quantiles'?"),
        ("kurtosis", f", only {', '.join(one for one in agg.__all__ if one[0].islower())}."),
    ],
)
def test_an_aggregate_that_is_not_there_says_which_is(name: str, hint: str) -> None:
    """By the names of Spark and pandas, too; what has no counterpart sees all, and can be written."""
    with pytest.raises(AttributeError, match=f"agg has no '{name}'{re.escape(hint)} Any other") as caught:
        getattr(agg, name)
    assert "agg.UserAggregate" in str(caught.value)
    assert not hasattr(agg, name)


def test_every_row_is_counted_by_a_star_as_well() -> None:
    """As in SQL and in Spark."""
    assert agg.count("*") == agg.count()


class Column:
    """Like one of Spark's: what compares it is no truth value."""

    def __eq__(self, other: object) -> Any:
        return Column()

    def __bool__(self) -> bool:
        raise ValueError("Cannot convert column into bool")

    __hash__ = object.__hash__


@pytest.mark.parametrize("make", [agg.count, agg.max, agg.collect, lambda one: agg.arg_max("delay", one)])
def test_a_column_in_place_of_its_name_is_refused(make: Any) -> None:
    """The advice is an aggregate, as printed."""
    with pytest.raises(DeclarationError, match="takes names of columns, as ") as caught:
        make(Column())
    (advised,) = re.findall(r"as (agg\S+),", str(caught.value))
    assert eval(advised, {"agg": agg}) == agg.max("delay")  # noqa: S307 -- our own text


@pytest.mark.parametrize("where", ["", " ", 7, True, Column()])
def test_a_where_that_is_no_text_is_refused(where: Any) -> None:
    """With one that would do; no condition is not taken for one that always holds."""
    with pytest.raises(DeclarationError, match=r'where is .*; write the condition as SQL, such as where="delay'):
        agg.sum("delay", where=where)
    with pytest.raises(DeclarationError, match="where is "):
        agg.count_if(where)
    with pytest.raises(DeclarationError, match="where is "):
        agg.count_if(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("at_most", [0, -1, 1.5, "7", None, True])
def test_a_bound_of_distinct_values_is_a_whole_number(at_most: Any) -> None:
    """Of 1 or more; what is done beyond it has two names."""
    with pytest.raises(DeclarationError, match=r"agg\.count_distinct: at_most is .*; it must be a whole number of"):
        agg.count_distinct("delay", at_most=at_most)
    with pytest.raises(DeclarationError, match=r"beyond is 'ignore'; it must be 'quarantine' or 'approximate'"):
        agg.count_distinct("delay", beyond="ignore")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k is 0; it must be a whole number of 1 or more"),
        ({"by": 7}, 'by is 7; write it as ORDER BY does, such as "price desc"'),
        ({"by": []}, r"by is \[\]; write"),
        ({"by": ["delay", None]}, "by is .*; write"),
        ({"by": "delay,"}, "takes names of columns, as .* not ''"),
        ({"by": "delay, delay desc"}, "names the column 'delay' twice"),
        ({"columns": "delay"}, r"columns is 'delay'; give a list of names"),
        ({"columns": []}, r"columns is \[\]; give a list"),
        ({"columns": ["ok", "ok"]}, "names the column 'ok' twice"),
    ],
)
def test_an_order_or_a_choice_of_columns_that_is_none_is_refused(options: dict[str, Any], message: str) -> None:
    """With how it is written."""
    given: dict[str, Any] = {"k": 1, "by": "delay", **options}
    with pytest.raises(DeclarationError, match=rf"agg\.top_rows.*{message}"):
        agg.top_rows(**given)


def test_an_order_is_written_as_in_sql() -> None:
    """Directions in any case, names with blanks; the last row is the first one in the other order."""
    top = agg.top_rows(k=2, by="the delay DESC, flight Asc,ok", columns=["ok"])
    assert top.columns == ("the delay", "flight", "ok", "ok")
    assert dict(top.options)["falling"] == (True, False, False)
    assert agg.top_rows(k=2, by=["the delay desc", "flight", "ok"], columns=["ok"]) == top
    assert dict(agg.last_row(by="delay").options)["falling"] == (True,)


@pytest.mark.parametrize("ranks", [[], 0.5, "0.5", [1.1], [-0.1], [True], ["0.5"], [float("nan")], {0.5}])
def test_ranks_are_numbers_from_0_to_1(ranks: Any) -> None:
    """At least one of them, in an order."""
    with pytest.raises(DeclarationError, match=r"agg\.quantiles: ranks is .*; give numbers from 0 to 1"):
        agg.quantiles("delay", ranks)


@pytest.mark.parametrize("edges", [[], 5, [1, 1], [2, 1], [1, float("inf")], ["1"], [True], {1, 2}])
def test_edges_are_rising_numbers(edges: Any) -> None:
    """At least one of them."""
    with pytest.raises(DeclarationError, match=r"agg\.histogram: edges is .*; (give rising|each must be greater)"):
        agg.histogram("delay", edges)


def test_a_number_of_values_is_one_of_1_or_more() -> None:
    """And what makes them greater has one name."""
    with pytest.raises(DeclarationError, match=r"agg\.top_k: k is 0; it must be a whole number of 1 or more"):
        agg.top_k("delay", k=0)
    with pytest.raises(DeclarationError, match=r"agg\.top_k: at_most is '9'; it must be a whole number"):
        agg.top_k("delay", k=1, at_most="9")  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match=r"agg\.top_k: by is 'sum'; it must be 'count'"):
        agg.top_k("delay", k=1, by="sum")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "agg.expr is of ''; write an expression"),
        (7, "agg.expr is of 7; write"),
        ("sum(delay) /", "is no expression; write one such as"),
        ("sum(delay) = 3", "is no expression; write one such as .*, with == for equal"),
        ("summ(delay)", r"there is no aggregate or function 'summ'; did you mean 'sum'\?; functions are abs, sqrt"),
        ("user(delay)", "there is no aggregate or function 'user'"),
        ("1 + 2", "has no aggregate; write one"),
        ("sum(delay * 2)", "has 'delay \\* 2' in an aggregate; aggregates are of columns"),
        ("sum()", r"without column; give column="),
        ("sum(delay, 3)", "got 3 without a name"),
        ("sum(delay)[0]", r"has 'sum\(delay\)\[0\]'; it takes"),
        ("sum(delay) + 'x'", "has 'x'; it takes numbers and aggregates"),
        ("abs(sum(delay), 2)", r"has 'abs\(sum\(delay\), 2\)'; abs takes 1 argument"),
        ("not 3", "has '3' beside 'not'; that is a number"),
        ("1 + (count() > 2)", r"has 'count\(\) > 2' beside '\+'; that is a condition"),
        ("1 < count() < 3", "it takes \\+ - "),
        ("count(where='')", "where is ''; write the condition as SQL"),
    ],
)
def test_a_text_that_is_no_expression_over_aggregates_is_refused(text: Any, message: str) -> None:
    """With what it has, and what it takes."""
    with pytest.raises(DeclarationError, match=message):
        agg.expr(text)


def test_an_expression_is_over_numbers_and_known_results() -> None:
    """Of the types of its aggregates; a name is that of another result column which is no expression itself."""
    for text, message in (
        ("max(flight) + 1", r"agg\.max\('flight'\) is string, and no number or boolean"),
        ("collect(delay)", r"agg\.collect\('delay'\) is list<item: int32>, and no number"),
        ("sum(dealy)", "there is no column 'dealy'"),
    ):
        with pytest.raises(DeclarationError, match=message):
            bind(agg.expr(text), SCHEMA)
    others = {"total": agg.sum("delay"), "n": agg.count(), "ratio": agg.expr("total / n")}
    assert others["ratio"].over(others).parts == (agg.sum("delay"), agg.count())
    for wrong in ("totl / n", "ratio * 2"):
        with pytest.raises(DeclarationError, match=r"is no result column of another aggregate.*; write an"):
            agg.expr(wrong).over(others)
    declared = agg.expr("SUM(delay) / avg(delay, where='ok')")
    assert [str(one) for one in declared.parts] == ["agg.sum('delay')", "agg.mean('delay', where='ok')"]
    assert declared.declaration()["parts"] == [one.declaration() for one in declared.parts]
    assert declared.read_columns == ("delay", agg.count_if("ok").condition)


def test_the_condition_is_part_of_a_declaration() -> None:
    """By its text; equal ones share a column, which counts among those that are read."""
    one, other = agg.sum("delay", where="ok"), agg.count_if("ok")
    assert one.declaration() == {"kind": "sum", "columns": ["delay", one.condition], "where": "ok"}
    assert (one.condition, str(one)) == (other.condition, "agg.sum('delay', where='ok')")
    assert agg.count_if("not ok").condition != one.condition


def test_a_declaration_is_what_must_stay_the_same() -> None:
    """Class, plain parameters and types of a user aggregate are part of it; helper objects are not."""
    assert agg.arg_max("delay", "flight").declaration() == {"kind": "arg_max", "columns": ["delay", "flight"]}
    assert agg.user(Total(2.5), "delay", output=float).declaration() == {
        "kind": "user",
        "columns": ["delay"],
        "class": "Total",
        "parameters": {"start": 2.5},
        "output": "double",
        "state": "double",
    }
    assert agg.user(Unmerged(), "delay").declaration()["state"] is None


def test_only_aggregates_without_partial_results_need_the_contents() -> None:
    """Collect and a user aggregate without merge keep rows; the error of partial results names the method to call."""
    assert [a.needs_content for a in (agg.collect("ok"), agg.user(Unmerged(), "delay"))] == [True, True]
    assert [a.needs_content for a in (agg.user(Total(), "delay"), agg.last("stops"))] == [False, False]
    a = bind(agg.collect("ok"), SCHEMA)
    assert a.needs_content
    with pytest.raises(TypeError, match="use from_content"):
        a.fold([], np.array([0]), 1, SCHEMA.empty_table(), np.array([0]))


@pytest.mark.parametrize("result", ["seven", [1.0], 2**80])
def test_a_result_that_does_not_fit_its_declared_type_names_the_class(result: Any) -> None:
    """A user aggregate that returns something else than declared fails with its own name in the message."""

    class Wrong(Unmerged):
        def result(self, state: Any) -> Any:
            return result

    a = bind(agg.user(Wrong(), "delay", output="int64"), SCHEMA)
    rows = SCHEMA.empty_table()
    with pytest.raises(InputError, match=r"agg\.user\(Wrong\): result\(\) does not fit the declared type int64"):
        a.from_content(rows, np.array([0, 0]))


def test_any_type_can_be_first_last_and_collected() -> None:
    """Values that are only passed on need no order: lists go through unchanged."""
    rows = pa.table({"stops": [None, ["ORD"], ["DEN", None], []]})
    cells, seq = np.zeros(4, dtype=np.int64), np.arange(4)
    for declared, value in ((agg.first("stops"), ["ORD"]), (agg.last("stops"), [])):
        a = bind(declared, rows.schema)
        assert a.finish(a.fold([], cells, 1, rows, seq)).to_pylist() == [value]
    a = bind(agg.collect("stops"), rows.schema)
    assert a.from_content(rows, np.array([0, 2, 2, 4])).to_pylist() == [[["ORD"]], [], [["DEN", None], []]]
