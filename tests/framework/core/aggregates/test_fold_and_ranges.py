"""Laws of every aggregate: splits change no bit, runs equal their contents, results equal those of plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panekeeper import agg
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.aggregates.protocol import Accumulator, PartRows, State

WHERE = "a condition"
CONDITION = str(agg.count(where=WHERE).condition)
SCHEMA = pa.schema(
    {
        "i": pa.int64(),
        "u": pa.uint64(),
        "f": pa.float64(),
        "wild": pa.float64(),
        "half": pa.float32(),
        "s": pa.string(),
        "dec": pa.decimal128(12, 2),
        "long": pa.decimal128(38, 3),
        "fine": pa.decimal128(38, 36),
        "t": pa.timestamp("us", tz="UTC"),
        "d": pa.duration("us"),
        "b": pa.bool_(),
        CONDITION: pa.bool_(),
    }
)
EACH = settings(max_examples=settings().max_examples // 16)  # every law is tried on some seventy aggregates
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-(2**40), 2**40) | st.integers(-2, 2),
    "u": st.integers(0, 2**40) | st.just(2**63 + 5),
    "f": st.floats(-1e6, 1e6),
    "wild": st.floats(-1e6, 1e6) | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0]),
    "half": st.floats(-1000, 1000, width=32),
    "s": st.text("abc", max_size=3),
    "dec": st.decimals(-1000, 1000, places=2),
    "long": st.integers(-(10**33), 10**33).map(lambda units: Decimal(units).scaleb(-3, Context(prec=100))),
    "fine": st.integers(1 - 10**36, 10**36 - 1).map(lambda units: Decimal(units).scaleb(-36, Context(prec=100))),
    "t": st.integers(-(10**15), 10**15).map(lambda us: EPOCH + timedelta(microseconds=us)),
    "d": st.integers(-100, 100).map(lambda us: timedelta(microseconds=us)),
    "b": st.booleans(),
    CONDITION: st.booleans(),
}


class Longest(agg.UserAggregate):
    """The most distant pair seen, as a nested state that `merge` changes in place."""

    state = list[float]

    def zero(self) -> list[float]:
        return []

    def add(self, state: list[float], value: float) -> list[float]:
        state[:] = [min([value, *state[:1]]), max([value, *state[1:]])]
        return state

    def merge(self, a: list[float], b: list[float]) -> list[float]:
        a[:] = [min(a[:1] + b[:1]), max(a[1:] + b[1:])] if a and b else a + b
        b.clear()
        return a

    def result(self, state: list[float]) -> float | None:
        return state[1] - state[0] if state else None


class AllOfIt(agg.UserAggregate):
    """The values joined: needs the contents, as it has no merge."""

    def zero(self) -> str:
        return ""

    def add(self, state: str, value: Any) -> str:
        return f"{state}{value};"

    def result(self, state: str) -> str:
        return state


class Sliding(AllOfIt):
    """A count that slides."""

    def zero(self) -> Any:
        return 0

    def add(self, state: Any, value: Any) -> Any:
        return state + 1

    def remove(self, state: Any, value: Any) -> Any:
        return state - 1

    def result(self, state: Any) -> Any:
        return float(state)


OF_GROUPS = {
    "n": agg.count(),
    "total": agg.sum("i"),
    "last": agg.last("s"),
    "kinds": agg.count_distinct("wild", where=WHERE),
}
GROUPINGS: list[tuple[Any, Any, Any]] = [
    (["b", "s"], 2, "total desc"),
    ("s", 3, "last"),
    ("b", None, None),
    (["s"], None, "n"),
]
EXPRESSIONS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "sum(i) / count(i)": lambda rows: _ratio(_sum(rows, "i"), _count(rows, "i")),
    "2 * max(i) - 1.5": lambda rows: 2.0 * max(_present(rows, "i")) - 1.5 if _count(rows, "i") else None,
    f"count(where={WHERE!r}) / count(*) >= 0.5": lambda rows: _ratio(
        sum(bool(row[CONDITION]) for row in rows), len(rows), 0.5
    ),
    "coalesce(sum(dec), -count())": lambda rows: float(_sum(rows, "dec") if _count(rows, "dec") else -len(rows)),
    "count_distinct(s) % nullif(count(s), 3)": lambda rows: _remainder(len({*_present(rows, "s")}), _count(rows, "s")),
    "any(b) and max(i) > 0 or not all(b)": lambda rows: _logic(_present(rows, "b"), _present(rows, "i")),
    "greatest(count(i), count(s), 2)": lambda rows: float(max(_count(rows, "i"), _count(rows, "s"), 2)),
}


def _count(rows: list[dict[str, Any]], column: str) -> int:
    return len(_present(rows, column))


def _present(rows: list[dict[str, Any]], column: str) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def _sum(rows: list[dict[str, Any]], column: str) -> Any:
    return sum(_present(rows, column)) if _present(rows, column) else None


def _ratio(a: Any, b: int, least: float | None = None) -> Any:
    if a is None or not b:
        return None
    return a / b if least is None else a / b >= least


def _remainder(a: int, b: int) -> float | None:
    return None if b in (0, 3) else float(a % b)


def _logic(flags: list[bool], numbers: list[int]) -> bool | None:
    """By hand: `or` and `and` of what may be unknown."""
    some, every = (any(flags), all(flags)) if flags else (None, None)
    great = max(numbers) > 0 if numbers else None
    both = False if False in (some, great) else None if None in (some, great) else True
    no = None if every is None else not every
    return True if True in (both, no) else None if None in (both, no) else False


ORDERED = ["i", "u", "f", "wild", "half", "s", "dec", "t", "d", "b"]
PARTIAL = [
    *[agg.count(), agg.count("s"), agg.approx_distinct("i"), agg.approx_distinct("s"), agg.approx_distinct("dec")],
    *[make(c) for make in (agg.sum, agg.mean) for c in ("i", "f", "half", "wild")],
    *[make(c) for make in (agg.sum, agg.mean) for c in ("dec", "long", "d")],
    *[agg.mean("fine"), agg.stddev("dec"), agg.sum("dec", where=WHERE)],
    *[make(c) for make in (agg.variance, agg.skewness) for c in ("i", "half", "dec")],
    *[agg.covariance("half", "i"), agg.corr("half", "i"), agg.weighted_mean("half", "u")],
    *[agg.corr("half", "half"), agg.covariance("half", "dec", where=WHERE)],
    *[agg.any("b"), agg.all("b"), agg.bit_or("i"), agg.bit_or("u")],
    *[agg.top_rows(k=2, by="wild desc", columns=["s"]), agg.top_rows(k=3, by="b, s desc", columns=["i", "b"])],
    *[agg.first_row(by="s", columns=["i"]), agg.last_row(by="i", columns=["s", "i"], where=WHERE)],
    *[agg.expr(text) for text in EXPRESSIONS],
    agg.expr("sum(i) / count(i)", where=WHERE),
    *[agg.of_groups(OF_GROUPS, columns, top, by, ["k"]) for columns, top, by in GROUPINGS],
    *[agg.top_k(c, k=2) for c in ORDERED],
    *[agg.quantiles(c, [0, 0.25, 0.1, 1], exact=True) for c in ORDERED],
    *[agg.quantiles(c, [0.5, 1, 0.3]) for c in ("i", "half", "wild", "dec")],
    *[agg.histogram(c, [-1, 0.5, 700]) for c in ("i", "wild", "dec")],
    *[agg.count_distinct(c) for c in ORDERED],
    *[agg.count_distinct(c, at_most=3, beyond="approximate") for c in ("i", "s")],
    *[agg.mean("u"), agg.stddev("i"), agg.stddev("f"), agg.stddev("wild"), agg.user(Longest(), "f")],
    *[make(c) for make in (agg.max, agg.min, agg.first, agg.last) for c in ORDERED],
    *[make(by, "s") for make in (agg.arg_max, agg.arg_min) for by in ("i", "wild", "b", "dec")],
    *[agg.arg_max("s", "t"), agg.arg_min("u", "i")],
    *[agg.count_if(WHERE), agg.sum("i", where=WHERE), agg.sum("f", where=WHERE), agg.last("s", where=WHERE)],
    *[agg.arg_max("wild", "s", where=WHERE), agg.stddev("f", where=WHERE), agg.user(Longest(), "f", where=WHERE)],
]
CONTENT = [
    agg.collect("s", where=WHERE),
    agg.collect("s"),
    agg.collect("wild"),
    agg.user(AllOfIt(), "i", output="string"),
]


class Case(NamedTuple):
    rows: pa.Table
    cells: np.ndarray[Any, np.dtype[np.int64]]
    n_cells: int


@st.composite
def cases(draw: st.DrawFn, columns: tuple[str, ...]) -> Case:
    """Rows of the columns an aggregate reads, nulls among them, scattered over a few cells."""
    n = draw(st.integers(0, 24))
    read = tuple(dict.fromkeys(columns)) or ("i",)
    arrays = {c: draw(st.lists(st.none() | VALUES[c], min_size=n, max_size=n)) for c in read}
    rows = pa.table(arrays, schema=pa.schema([SCHEMA.field(c) for c in read]))
    n_cells = draw(st.integers(1, 6))
    cells = draw(st.lists(st.integers(0, n_cells - 1), min_size=n, max_size=n))
    return Case(rows, np.array(cells, dtype=np.int64), n_cells)


def fold(a: Accumulator, case: Case, splits: list[int]) -> State:
    """Fold in batches that end at `splits`; each has the cells that came up by then."""
    state: State = []
    ends = [*sorted(splits), len(case.cells)]
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        known = case.n_cells if end == len(case.cells) else int(case.cells[:end].max(initial=-1)) + 1
        seq = np.arange(start, end, dtype=np.int64)
        state = a.fold(state, case.cells[start:end], known, case.rows.slice(start, end - start), seq)
    return state


def bits(array: pa.Array) -> list[Any]:
    """Everything there is to compare, floats by their bits, those in lists as they are printed."""
    if pa.types.is_floating(array.type):
        array = array.view(pa.int64() if array.type == pa.float64() else pa.int32())
    return [str(array.type), *map(repr, array.to_pylist())]


def expected(a: agg.Aggregate, rows: list[dict[str, Any]]) -> Any:
    """Result over rows in arrival order, in plain Python."""
    rows = [row for row in rows if a.condition is None or row[a.condition]]
    if a.kind == "expr":
        return EXPRESSIONS[dict(a.options)["expression"]](rows)
    if a.columns == ():
        return len(rows)
    if a.kind in OF_ROWS:
        return OF_ROWS[a.kind](a, rows)
    kept = [row for row in rows if row[a.columns[0]] is not None]
    values = [row[a.columns[0]] for row in kept]
    if values and a.kind in ("sum", "mean") and isinstance(values[0], Decimal | timedelta):
        return _exact(a.kind, values, SCHEMA.field(a.columns[0]).type)
    if a.kind == "stddev":
        values = list(map(float, values))
    return PLAIN[a.kind](values, [row[a.columns[-1]] for row in kept])


def _order(value: Any) -> Any:
    return (value != value, 0 if value != value else value)  # noqa: PLR0124 -- NaN, above all others


def _pairs(a: agg.Aggregate, rows: list[dict[str, Any]]) -> list[tuple[Fraction, Fraction]]:
    """The values of the first and the last column of an aggregate where both are there."""
    first, last = a.columns[0], a.columns[-1]
    return [(Fraction(r[first]), Fraction(r[last])) for r in rows if r[first] is not None and r[last] is not None]


def _moment(pairs: list[tuple[Fraction, Fraction]], x: int, y: int) -> Fraction:
    """The sum of the products of so many distances from each mean, exact."""
    x_mean, y_mean = (sum(pair[at] for pair in pairs) / len(pairs) for at in (0, 1))
    return Fraction(sum((p - x_mean) ** x * (q - y_mean) ** y for p, q in pairs))


def _covariance(a: agg.Aggregate, rows: list[dict[str, Any]]) -> float | None:
    pairs = _pairs(a, rows)
    return float(_moment(pairs, 1, 1) / (len(pairs) - 1)) if len(pairs) > 1 else None


def _corr(a: agg.Aggregate, rows: list[dict[str, Any]]) -> float | None:
    pairs = _pairs(a, rows)
    if len(pairs) < 2 or not (spread := _moment(pairs, 2, 0) * _moment(pairs, 0, 2)):
        return None
    return float(_moment(pairs, 1, 1)) / math.sqrt(spread)


def _skewness(a: agg.Aggregate, rows: list[dict[str, Any]]) -> float | None:
    pairs = _pairs(a, rows)
    if not pairs or not (squares := _moment(pairs, 2, 0)):
        return None
    return math.sqrt(len(pairs)) * float(_moment(pairs, 3, 0)) / math.sqrt(squares) ** 3


def _weighted(a: agg.Aggregate, rows: list[dict[str, Any]]) -> float | None:
    pairs = _pairs(a, rows)
    weight = sum(w for _, w in pairs)
    return float(sum(x * w for x, w in pairs) / weight) if weight else None


def _top(a: agg.Aggregate, rows: list[dict[str, Any]]) -> Any:
    options = dict(a.options)
    by = a.columns[: len(options["falling"])]
    found = [row for row in rows if all(row[name] is not None for name in by)]
    for name, falls in reversed(list(zip(by, options["falling"], strict=True))):
        found.sort(key=lambda row: _order(row[name]), reverse=falls)
    shown = [{name: row[name] for name in a.columns[len(by) :]} for row in found[: options["k"]]]
    return shown if a.kind == "top_rows" else next(iter(shown), None)


def _groups(a: agg.Aggregate, rows: list[dict[str, Any]]) -> Any:
    """The groups in the order of their columns, null first, sorted by a result, null last."""
    options, found = dict(a.options), dict[str, list[dict[str, Any]]]()
    in_order = sorted(
        rows, key=lambda row: [(True, row[name]) if row[name] is not None else (False, 0) for name in a.columns]
    )
    places = {repr([row[name] for name in a.columns]): row for row in in_order}
    for key in places:
        found[key] = [row for row in rows if repr([row[name] for name in a.columns]) == key]
    shown = [
        {name: places[key][name] for name in a.columns}
        | {name: expected(part, own) for name, part in zip(options["names"], a.parts, strict=True)}
        for key, own in found.items()
    ]
    if (by := options["by"]) is not None:
        known = sorted([one for one in shown if one[by] is not None], key=lambda one: one[by], reverse=options["falls"])
        shown = [*known, *(one for one in shown if one[by] is None)]
    return [one | {"rank": rank} for rank, one in enumerate(shown[: options["top"]], 1)]


def _values(a: agg.Aggregate, rows: list[dict[str, Any]]) -> list[Any]:
    """The values that are not null, in their order; -0.0 is 0.0."""
    values = [row[a.columns[0]] for row in rows if row[a.columns[0]] is not None]
    return sorted([0.0 if isinstance(v, float) and v == 0 else v for v in values], key=_order)


def _top_k(a: agg.Aggregate, rows: list[dict[str, Any]]) -> Any:
    values = _values(a, rows)
    counts = {repr(v): (-sum(repr(w) == repr(v) for w in values), place, v) for place, v in enumerate(values)}
    first = sorted(counts.values(), key=lambda one: one[:2])[: dict(a.options)["k"]]
    return [{a.columns[0]: v, "count": -count} for count, _, v in first]


def _quantiles(a: agg.Aggregate, rows: list[dict[str, Any]]) -> Any:
    values, options = _values(a, rows), dict(a.options)
    at = [max(math.ceil(Fraction(str(rank)) * len(values)), 1) - 1 for rank in options["ranks"]]
    found = [values[place] for place in at] if values else None
    if found is None or options["exact"]:
        return found
    return [pytest.approx(float(v), rel=0.008, abs=1e-300, nan_ok=True) for v in found]


def _histogram(a: agg.Aggregate, rows: list[dict[str, Any]]) -> Any:
    edges = [-math.inf, *dict(a.options)["edges"], math.inf]
    values = [math.inf if v != v else float(v) for v in _values(a, rows)]  # noqa: PLR0124 -- NaN
    return [sum(low <= v < high or v == high == math.inf for v in values) for low, high in pairwise(edges)]


OF_ROWS: dict[str, Callable[[agg.Aggregate, list[dict[str, Any]]], Any]] = {
    "covariance": _covariance,
    "variance": _covariance,
    "corr": _corr,
    "skewness": _skewness,
    "weighted_mean": _weighted,
    "groups": _groups,
    "top_rows": _top,
    "top_k": _top_k,
    "quantiles": _quantiles,
    "histogram": _histogram,
    "first_row": _top,
    "last_row": _top,
}
INEXACT = {"sum", "mean", "stddev", "variance", "covariance", "weighted_mean"}


def _exact(what: str, values: list[Any], kind: pa.DataType) -> Any:
    """The sum or mean in fractions, rounded once, half away from 0, to the digits that Spark gives it."""
    is_decimal = pa.types.is_decimal(kind)
    total = sum(Fraction(v) if is_decimal else Fraction(v // timedelta(microseconds=1)) for v in values)
    places = (min(kind.scale + 4 * (what == "mean"), 38)) if is_decimal else 0
    exact = (total / len(values) if what == "mean" else total) * 10**places
    units = math.floor(abs(exact) + Fraction(1, 2)) * (-1 if exact < 0 else 1)
    return Decimal(units).scaleb(-places, Context(prec=100)) if is_decimal else timedelta(microseconds=units)


def _stddev(values: list[float], _: Any) -> float | None:
    if len(values) < 2:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def _extreme(best: Callable[..., Any]) -> Callable[[list[Any], list[Any]], Any]:
    def result(by: list[Any], values: list[Any]) -> Any:
        return values[best(range(len(by)), key=lambda at: _order(by[at]))] if by else None

    return result


PLAIN: dict[str, Callable[[list[Any], list[Any]], Any]] = {
    "count": lambda values, _: len(values),
    "sum": lambda values, _: sum(values) if values else None,
    "mean": lambda values, _: sum(values) / len(values) if values else None,
    "stddev": _stddev,
    "approx_distinct": lambda values, _: len(set(values)),
    "count_distinct": lambda values, _: len({"NaN" if v != v else v for v in values}),  # noqa: PLR0124
    "any": lambda values, _: any(values) if values else None,
    "all": lambda values, _: all(values) if values else None,
    "bit_or": lambda values, _: reduce(or_, values) if values else None,
    "max": _extreme(max),
    "min": _extreme(min),
    "arg_max": _extreme(max),
    "arg_min": _extreme(min),
    "first": lambda values, _: values[0] if values else None,
    "last": lambda values, _: values[-1] if values else None,
    "collect": lambda values, _: values,
    "user": lambda values, _: max(values) - min(values) if values else None,
}


def _floats(rows: list[dict[str, Any]], column: str) -> list[float]:
    return [float(row[column] or 0) for row in rows]


def assert_same(a: agg.Aggregate, got: Any, rows: list[dict[str, Any]]) -> None:
    """Exactly what plain Python says; sums of floats may be added in another order."""
    right = expected(a, rows)
    if ("beyond", "approximate") in a.options and right > dict(a.options)["at_most"]:
        assert got > dict(a.options)["at_most"]
        return
    if isinstance(right, float) and a.kind in ("corr", "skewness", "expr"):
        assert got == pytest.approx(right, rel=1e-6, abs=1e-6)
    elif isinstance(right, float) and a.kind in INEXACT:
        read = (a.columns[0], a.columns[-1]) if a.kind in ("variance", "covariance") else (a.columns[0],)
        size = math.prod(max((abs(x) for x in _floats(rows, name) if math.isfinite(x)), default=0) for name in read)
        assert got == pytest.approx(right, rel=1e-9, abs=1e-9 * size, nan_ok=True)
    else:
        assert got == right or str(got) == str(right)  # NaN on both sides


@pytest.mark.parametrize("declared", PARTIAL, ids=str)
@EACH
@given(data=st.data())
def test_splitting_a_stream_into_batches_changes_no_bit(declared: agg.Aggregate, data: st.DataObject) -> None:
    """Folding in any number of batches gives the states and results of one fold, to the last bit."""
    case = data.draw(cases(declared.read_columns))
    splits = data.draw(st.lists(st.integers(0, len(case.cells)), max_size=4))
    a = bind(declared, SCHEMA)
    whole, parts = fold(a, case, []), fold(a, case, splits)
    assert [bits(column) for column in parts] == [bits(column) for column in whole]
    assert [column.type for column in parts] == a.state_types()
    assert bits(a.finish(parts)) == bits(a.finish(whole))
    assert a.finish(parts).type == a.output


@pytest.mark.parametrize("declared", PARTIAL, ids=str)
@EACH
@given(data=st.data())
def test_a_result_is_that_of_the_rows_in_plain_python(declared: agg.Aggregate, data: st.DataObject) -> None:
    """Each cell's result equals a naive computation from its raw values in arrival order."""
    case = data.draw(cases(declared.read_columns))
    a = bind(declared, SCHEMA)
    rows = case.rows.to_pylist()
    for cell, got in enumerate(a.finish(fold(a, case, [])).to_pylist()):
        assert_same(declared, got, [row for row, of in zip(rows, case.cells, strict=True) if of == cell])


@pytest.mark.parametrize("declared", PARTIAL, ids=str)
@EACH
@given(data=st.data())
def test_a_run_is_worth_the_rows_of_its_cells(declared: agg.Aggregate, data: st.DataObject) -> None:
    """A merged run gives the result of all its rows, and the same bits when its cells stand alone."""
    case = data.draw(cases(declared.read_columns))
    spans = st.tuples(st.integers(0, case.n_cells), st.integers(0, case.n_cells)).map(sorted)
    lo, hi = np.array(data.draw(st.lists(spans, min_size=1, max_size=8)), dtype=np.int64).T
    a = bind(declared, SCHEMA)
    state = fold(a, case, [])
    results = a.finish(a.merge_ranges(state, lo, hi))
    rows = case.rows.to_pylist()
    for j, (start, end) in enumerate(zip(lo.tolist(), hi.tolist(), strict=True)):
        inside = [row for row, of in zip(rows, case.cells, strict=True) if start <= of < end]
        assert_same(declared, results[j].as_py(), inside)
        only = [column.slice(start, end - start) for column in state]
        alone = a.merge_ranges(only, np.array([0]), np.array([end - start]))
        assert bits(a.finish(alone)) == bits(results.slice(j, 1))


@pytest.mark.parametrize("declared", [*PARTIAL, *CONTENT], ids=str)
@EACH
@given(data=st.data())
def test_contents_give_the_result_without_partial_states(declared: agg.Aggregate, data: st.DataObject) -> None:
    """`from_content` has the result of plain Python for each group of rows, also where rows lie outside all groups."""
    case = data.draw(cases(declared.read_columns))
    n = len(case.cells)
    offsets = sorted(data.draw(st.lists(st.integers(0, n), min_size=1, max_size=5)))
    a = bind(declared, SCHEMA)
    results = a.from_content(case.rows, np.array(offsets, dtype=np.int64))
    assert results.type == a.output
    for got, start, end in zip(results.to_pylist(), offsets, offsets[1:], strict=False):
        group = case.rows.to_pylist()[start:end]
        if declared.output == pa.string():
            assert got == "".join(f"{row['i']};" for row in group if row["i"] is not None)
        elif declared.kind == "collect":
            assert list(map(str, got)) == list(map(str, expected(declared, group)))
        else:
            assert_same(declared, got, group)


@pytest.mark.parametrize("declared", [*CONTENT, agg.user(Sliding(), "i", where=WHERE)], ids=str)
@EACH
@given(data=st.data())
def test_ranges_of_rows_give_what_their_contents_give(declared: agg.Aggregate, data: st.DataObject) -> None:
    """However the ranges overlap."""
    case = data.draw(cases(declared.read_columns))
    n = len(case.cells)
    spans = st.tuples(st.integers(0, n), st.integers(0, n)).map(sorted)
    lo, hi = np.array(data.draw(st.lists(spans, min_size=1, max_size=5)), dtype=np.int64).T
    a = bind(declared, SCHEMA)
    each = [a.from_content(case.rows, np.array(span)) for span in zip(lo, hi, strict=True)]
    assert list(map(str, a.from_ranges(case.rows, lo, hi))) == [str(one[0]) for one in each]


@pytest.mark.parametrize("declared", [one for one in PARTIAL if bind(one, SCHEMA).merges_exactly], ids=str)
@EACH
@given(data=st.data())
def test_rows_that_are_folded_alone_and_merged_change_no_bit(declared: agg.Aggregate, data: st.DataObject) -> None:
    """As they are before the shuffle: some rows folded into partial results, which are merged into the cells."""
    case = data.draw(cases(declared.read_columns))
    split = data.draw(st.integers(0, len(case.cells)))
    a = bind(declared, SCHEMA)
    whole = fold(a, case, [])
    held = a.fold([], case.cells[:split], case.n_cells, case.rows.slice(0, split), np.arange(split))
    own, cells = np.unique(case.cells[split:], return_inverse=True)
    later = a.fold([], cells, len(own), case.rows.slice(split), np.arange(len(cells)))
    merged = a.merge(held, later, own, case.n_cells)
    assert [bits(column) for column in merged] == [bits(column) for column in whole]


@pytest.mark.parametrize("declared", PARTIAL, ids=str)
@EACH
@given(data=st.data())
def test_what_there_is_after_each_part_is_what_its_rows_until_then_fold_to(
    declared: agg.Aggregate, data: st.DataObject
) -> None:
    """To the bits of results: for cells that begin with rows or without, cut after any of their rows."""
    case = data.draw(cases(declared.read_columns))
    n = len(case.cells)
    split, cuts = data.draw(st.integers(0, n)), data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    a = bind(declared, SCHEMA)
    begun = a.fold([], case.cells[:split], case.n_cells, case.rows.slice(0, split), np.arange(split))
    later = np.arange(split, n)
    order = later[np.argsort(case.cells[later], kind="stable")]
    parts, part, ends, offsets = np.zeros(n, dtype=np.int64), 0, list[int](), [0]
    for cell in range(case.n_cells):
        own = order[case.cells[order] == cell].tolist()
        for row in own:
            parts[row] = part
            if cuts[row] or row == own[-1]:
                part += 1
                ends.append(row)
        if not own:  # a part without rows, as where a condition leaves none
            part += 1
            ends.append(-1)
        offsets.append(part)
    rows = PartRows(case.rows.slice(split), parts[later], order - split, later)
    after = a.finish(a.fold_parts(begun, np.array(offsets), rows))
    for place, end in enumerate(ends):
        of_cell = sum(offset <= place for offset in offsets) - 1
        until = np.flatnonzero((case.cells == of_cell) & (np.arange(n) <= max(end, split - 1)))
        alone = a.fold([], np.zeros(len(until), dtype=np.int64), 1, case.rows.take(pa.array(until)), until)
        assert bits(after.slice(place, 1)) == bits(a.finish(alone))
