"""Where aggregates could go wrong on real data: overflow, ties, NaN, large arrays, sketches, stored hashes."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from panekeeper import agg
from panekeeper.framework.core.aggregates import tallies
from panekeeper.framework.core.aggregates.approx_distinct import stable_hashes
from panekeeper.framework.core.aggregates.binding import bind
from panekeeper.framework.core.aggregates.protocol import Accumulator, State
from panekeeper.framework.declarations.errors import InputError

GOLDEN: dict[str, list[int]] = {
    "int": [
        16294208416658607535,
        10451216379200822465,
        16490336266968443936,
    ],
    "float": [
        16294208416658607535,
        15481881892811333770,
        14351126860892846918,
    ],
    "text": [
        12035550249420947055,
        1056990175157489671,
        9910835213548855925,
        13682917772796827477,
        16970482069276886299,
    ],
}


def folded(declared: agg.Aggregate, rows: pa.Table, cells: list[int] | None = None) -> tuple[Accumulator, State]:
    """Fold all rows at once; into one cell unless others are given."""
    a = bind(declared, rows.schema)
    of = np.array([0] * len(rows) if cells is None else cells, dtype=np.int64)
    return a, a.fold([], of, int(of.max(initial=0)) + 1, rows, np.arange(len(rows), dtype=np.int64))


def result(declared: agg.Aggregate, rows: pa.Table) -> Any:
    """The aggregate of all rows."""
    a, state = folded(declared, rows)
    return a.finish(state)[0].as_py()


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()], ids=str)
@pytest.mark.parametrize("base", [0, 2**53 + 1, 1_780_000_000_000_000_001, 2**63 - 3])
def test_the_spread_of_integers_that_no_double_holds_is_exact(kind: pa.DataType, base: int) -> None:
    """Nanoseconds since the epoch, one after the other, are 1 apart, in one piece, in two, and merged by slices."""
    values = [base, base + 1, base + 2]
    rows = pa.table({"t": pa.array(values, kind)})
    assert result(agg.stddev("t"), rows) == 1.0
    a, state = folded(agg.stddev("t"), rows.slice(0, 1))
    later = a.fold(state, np.array([0, 0]), 1, rows.slice(1), np.array([1, 2]))
    assert a.finish(later).to_pylist() == [1.0]
    _, slices = folded(agg.stddev("t"), rows, cells=[0, 1, 2])
    assert a.finish(a.merge_ranges(slices, np.array([0, 1]), np.array([3, 3]))).to_pylist() == [1.0, math.sqrt(0.5)]


def test_the_spread_of_integers_that_are_as_far_apart_as_can_be() -> None:
    """Their difference does not fit 64 bits, and is not taken for a small one."""
    assert result(agg.stddev("t"), pa.table({"t": [-(2**63), 2**63 - 1]})) == pytest.approx(2**64 / math.sqrt(2))
    rows = pa.table({"t": pa.array([0, 2**64 - 1], pa.uint64())})
    assert result(agg.stddev("t"), rows) == pytest.approx(2**64 / math.sqrt(2))


def test_a_sum_beyond_64_bits_is_refused_with_the_column_and_the_sum() -> None:
    """An overflow is an error that names the column, never a wrapped number."""
    rows = pa.table({"fare": [2**62, 2**62, 7]})
    with pytest.raises(InputError, match=r"agg\.sum\('fare'\).*9223372036854775815.*cast 'fare' to double"):
        result(agg.sum("fare"), rows)
    assert result(agg.mean("fare"), rows) == pytest.approx((2**63 + 7) / 3)


def test_a_sum_that_leaves_64_bits_and_comes_back_is_exact_however_it_is_cut() -> None:
    """Only the sum of a firing must fit: a batch that ends at the peak does not fail."""
    rows = pa.table({"x": [2**62, 2**62, 2**62, -(2**62), -(2**62), -1]})
    a = bind(agg.sum("x"), rows.schema)
    state: State = []
    for at in range(len(rows)):
        state = a.fold(state, np.array([0]), 1, rows.slice(at, 1), np.array([at]))
    assert a.finish(state).to_pylist() == [2**62 - 1]
    assert result(agg.sum("x"), pa.table({"x": [-(2**63), 2**63 - 1]})) == -1


@pytest.mark.parametrize("cells", [[0, 0, 0], [0, 1, 2]])
@pytest.mark.parametrize(
    ("values", "total", "middle"),
    [
        ([1.797e308] * 3, math.inf, 1.797e308),
        ([-1.797e308] * 3, -math.inf, -1.797e308),
        ([1.5e308, 1.5e308, -1.5e308], 1.5e308, 5e307),
        ([1.5e308, 1.5e308, -math.inf], -math.inf, -math.inf),
        ([1.5e308, 1.5e308, math.nan], math.nan, math.nan),
        ([math.inf, 1.5e308, -math.inf], math.nan, math.nan),
    ],
)
def test_what_leaves_the_range_of_doubles_and_comes_back_is_right(
    values: list[float], total: float, middle: float, cells: list[int]
) -> None:
    """In one batch, in three, and in slices; a sum that stays beyond it is infinite."""
    rows = pa.table({"x": values})
    for declared, right in ((agg.sum("x"), total), (agg.mean("x"), middle)):
        a, state = folded(declared, rows, cells)
        merged = a.merge_ranges(state, np.array([0]), np.array([len(state[0])]))
        assert a.finish(merged)[0].as_py() == pytest.approx(right, rel=1e-15, nan_ok=True)
        cut: State = []
        for at, cell in enumerate(cells):
            cut = a.fold(cut, np.array([cell]), max(cells[: at + 1]) + 1, rows.slice(at, 1), np.array([at]))
        assert [str(one) for one in cut] == [str(one) for one in state]


def test_a_sum_of_decimals_may_leave_its_type_on_the_way() -> None:
    """Only what a firing shows must fit; else the error has the exact sum, and what to do."""
    most, least = Decimal("9" * 36 + ".99"), Decimal("-" + "9" * 36 + ".99")
    rows = pa.table({"x": pa.array([most, most, least, None], pa.decimal128(38, 2)), "cell": [0, 1, 2, 2]})
    for cells in ([0, 0, 0, 0], [0, 1, 2, 2]):
        a, state = folded(agg.sum("x"), rows, cells)
        merged = a.finish(a.merge_ranges(state, np.array([0, 0]), np.array([len(state[0]), 0])))
        assert (merged.to_pylist(), merged.type) == ([most, None], pa.decimal128(38, 2))
    with pytest.raises(
        InputError, match=r"agg\.sum\('x'\): the sum .* is 1999.*\.98, beyond decimal\(38, 2\); cast 'x'"
    ):
        result(agg.sum("x"), rows.slice(0, 2))
    assert result(agg.sum("x"), pa.table({"x": pa.array([least], pa.decimal128(38, 2))})) == least


def test_a_mean_of_decimals_that_has_too_few_digits_is_refused() -> None:
    """Four more digits behind the point leave fewer before it, as in Spark."""
    rows = pa.table({"x": pa.array([Decimal(10) ** 30], pa.decimal128(38, 6))})
    with pytest.raises(InputError, match=r"agg\.mean\('x'\): the mean of a window is 1.*, beyond decimal\(38, 10\)"):
        result(agg.mean("x"), rows)
    small = pa.array([Decimal("0.01"), Decimal("0.02"), Decimal("0.02")], pa.decimal128(5, 2))
    assert str(result(agg.mean("x"), pa.table({"x": small}))) == "0.016667"


def test_of_equals_the_earliest_arrival_wins_also_across_slices() -> None:
    """A tie goes by arrival: the row of the later slice wins if it came first."""
    rows = pa.table({"delay": [5, 5, 5], "flight": ["late slice", "early slice", "early slice, later"]})
    for declared in (agg.arg_max("delay", "flight"), agg.arg_min("delay", "flight"), agg.first("flight")):
        a, state = folded(declared, rows, cells=[1, 0, 0])
        assert a.finish(state).to_pylist() == ["early slice", "late slice"]
        assert a.finish(a.merge_ranges(state, np.array([0]), np.array([2]))).to_pylist() == ["late slice"]


def test_the_row_of_an_extreme_may_have_nothing_to_say() -> None:
    """arg_max returns null if the winning row's value is null; rows without an ordering value never win."""
    rows = pa.table({"delay": [1, 9, None], "flight": ["a", None, "c"]})
    assert result(agg.arg_max("delay", "flight"), rows) is None
    assert result(agg.arg_min("delay", "flight"), rows) == "a"


def test_the_least_integer_can_win() -> None:
    """The smallest value of a type is a value, not a mark for "nothing yet"."""
    rows = pa.table({"x": pa.array([None, -(2**63)], pa.int64()), "who": ["a", "b"]})
    for cells in ([0, 0], [0, 1], [1, 0]):
        a, state = folded(agg.max("x"), rows, cells)
        assert a.finish(a.merge_ranges(state, np.array([0]), np.array([len(state[0])]))).to_pylist() == [-(2**63)]
        a, state = folded(agg.arg_max("x", "who"), rows, cells)
        assert a.finish(a.merge_ranges(state, np.array([0]), np.array([len(state[0])]))).to_pylist() == ["b"]


def test_nan_is_larger_than_every_number() -> None:
    """Max finds a NaN, min only if there is nothing else."""
    rows = pa.table({"x": [1.0, math.nan, math.inf]})
    assert math.isnan(result(agg.max("x"), rows))
    assert result(agg.min("x"), rows) == 1.0
    assert math.isnan(result(agg.min("x"), pa.table({"x": [math.nan]})))


def test_the_deviation_of_large_neighbouring_numbers_keeps_its_digits() -> None:
    """A large mean takes no digits from a small spread, neither in a cell nor over merged cells."""
    values = 1e9 + np.array([0.25, 0.5, 0.75, 1.0] * 250)
    a, state = folded(agg.stddev("x"), pa.table({"x": values}), cells=[at % 7 for at in range(1000)])
    merged = a.finish(a.merge_ranges(state, np.array([0]), np.array([7])))
    assert merged[0].as_py() == pytest.approx(np.std(values, ddof=1), rel=1e-12)


@pytest.mark.parametrize("declared", [agg.sum("f"), agg.stddev("f"), agg.max("f"), agg.arg_min("f", "i")], ids=str)
def test_the_company_of_a_run_changes_no_bit(declared: agg.Aggregate) -> None:
    """A run gives the same bits among many neighbours, among many scattered ones, and in a small array."""
    generator = np.random.default_rng(5)
    n = 50_000
    rows = pa.table({"f": generator.normal(size=n) * 1e3, "i": np.arange(n)})
    a, leaves = folded(declared, rows, cells=list(range(n)))
    lo = np.arange(n - 40)
    hi = lo + generator.integers(0, 40, len(lo))
    together = a.finish(a.merge_ranges(leaves, lo, hi))
    order = generator.permutation(len(lo))
    scattered = a.finish(a.merge_ranges(leaves, lo[order], hi[order]))
    assert scattered.equals(together.take(pa.array(order)))
    few = np.arange(100, 160)
    part = a.merge_ranges([column.slice(90, 200) for column in leaves], lo[few] - 90, hi[few] - 90)
    assert a.finish(part).equals(together.take(pa.array(few)))


def test_columns_in_chunks_and_slices_are_read_where_they_begin() -> None:
    """A table of several chunks, cut in the middle of one, gives the rows that it shows."""
    chunk = pa.table({"b": [True, False, None, False] * 5, "s": ["w", None, "y", "z"] * 5, "i": list(range(20))})
    rows = pa.concat_tables([chunk, chunk]).slice(3, 30)
    for declared in (agg.max("b"), agg.last("s"), agg.sum("i"), agg.approx_distinct("s"), agg.approx_distinct("b")):
        assert result(declared, rows) == result(declared, pa.Table.from_pylist(rows.to_pylist(), schema=rows.schema))


def test_no_rows_and_no_cells_are_nothing_special() -> None:
    """An empty state folds, merges and finishes to empty columns; an empty run gives null or 0."""
    schema = pa.schema({"x": pa.int64()})
    none = np.array([], dtype=np.int64)
    for declared, empty in ((agg.count("x"), 0), (agg.sum("x"), None), (agg.max("x"), None), (agg.stddev("x"), None)):
        a = bind(declared, schema)
        state = a.fold([], none, 0, schema.empty_table(), none)
        assert [len(column) for column in a.merge_ranges(state, none, none)] == [0] * len(state)
        assert a.finish(a.merge_ranges(state, np.array([0]), np.array([0]))).to_pylist() == [empty]


@pytest.mark.parametrize("distinct", [1023, 2_000, 60_000])
def test_distinct_values_are_counted_within_three_standard_errors(distinct: int) -> None:
    """Exact below 1024, then within 10 %, whether folded into one cell or merged from many."""
    values = [f"tail-{at}" for at in range(distinct)] * 2
    rows = pa.table({"tail": values})
    a, state = folded(agg.approx_distinct("tail"), rows, cells=[at % 11 for at in range(len(values))])
    merged = a.finish(a.merge_ranges(state, np.array([0]), np.array([11])))[0].as_py()
    assert merged == result(agg.approx_distinct("tail"), rows)
    assert merged == pytest.approx(distinct, rel=0 if distinct < 1024 else 0.1)


@pytest.mark.parametrize("cells", [1, 11])
def test_more_distinct_values_than_are_kept_are_refused_or_estimated(cells: int) -> None:
    """In one cell, or merged from several none of which has too many."""
    rows = pa.table({"tail": [f"tail-{at % 3000}" for at in range(9000)]})
    of = [at % cells for at in range(9000)]
    for at_most, exact in ((3000, True), (2999, False), (1000, False)):
        a, state = folded(agg.count_distinct("tail", at_most=at_most), rows, of)
        assert max(len(one) for one in state[0]) <= at_most + 1
        merged = a.merge_ranges(state, np.array([0]), np.array([cells]))
        if exact:
            assert a.finish(merged).to_pylist() == [3000]
            continue
        with pytest.raises(InputError, match=rf"^agg\.count_distinct\('tail'.* more than {at_most} distinct values; "):
            a.finish(merged)
        a, state = folded(agg.count_distinct("tail", at_most=at_most, beyond="approximate"), rows, of)
        estimated = a.finish(a.merge_ranges(state, np.array([0]), np.array([cells])))[0].as_py()
        assert estimated == result(agg.count_distinct("tail", at_most=at_most, beyond="approximate"), rows)
        assert estimated == pytest.approx(3000, rel=0.1)


def test_of_too_many_values_the_most_frequent_are_unknown() -> None:
    """A count that was left out may have been the greatest."""
    rows = pa.table({"tail": [f"tail-{at % 30}" for at in range(90)]})
    assert result(agg.top_k("tail", k=1, at_most=30), rows) == [{"tail": "tail-0", "count": 3}]
    with pytest.raises(InputError, match=r"^agg\.top_k\('tail'.*: a window has more than 29 distinct values; declare"):
        result(agg.top_k("tail", k=1, at_most=29), rows)


@pytest.mark.parametrize("cells", [1, 7])
def test_quantiles_are_within_the_promised_error(cells: int) -> None:
    """Over forty powers of ten, of both signs, in one cell or several; the state is as small as promised."""
    generator = np.random.default_rng(3)
    above, below = 10 ** generator.uniform(-20, 20, 50_000), 10 ** generator.uniform(-3, 3, 20_000)
    values = np.concatenate([above, -below, [0.0]])
    rows, ranks = pa.table({"x": values}), [0, 0.001, 0.01, 0.2857, 0.5, 0.95, 0.99, 0.9999, 1]
    a, state = folded(agg.quantiles("x", ranks), rows, [at % cells for at in range(len(values))])
    found = a.finish(a.merge_ranges(state, np.array([0]), np.array([cells])))[0].as_py()
    exact = result(agg.quantiles("x", ranks, exact=True), rows)
    assert found == pytest.approx(exact, rel=0.008)
    assert max(len(one) for one in state[0]) <= 64 * (133 + 20 + 4)


def test_quantiles_of_small_integers_are_exact() -> None:
    """And those of greater ones are integers."""
    values = list(range(-300, 301))
    ranks = [at / 601 for at in range(1, 602)]
    found = result(agg.quantiles("x", ranks), pa.table({"x": values}))
    assert [x for x in found if -128 < x < 128] == list(range(-127, 128))
    assert found == [pytest.approx(x, rel=0.008) for x in values]
    assert all(x.is_integer() for x in found)


def test_integers_that_no_double_holds_are_counted_as_the_nearest() -> None:
    """In buckets and bins, of either sign; a column of numbers of an order, say, ends no job."""
    rows = pa.table({"x": pa.array([2**53 + 1, 2**63 - 1, -(2**63)], pa.int64())})
    least, middle, most = result(agg.quantiles("x", [0.0, 0.5, 1.0]), rows)
    assert (least, middle, most) == pytest.approx((-(2**63), 2**53, 2**63), rel=0.008)
    assert result(agg.histogram("x", [0, 2**60]), rows) == [1, 1, 1]


def test_extreme_numbers_have_quantiles() -> None:
    """Infinite ones, NaN above all, and those around 0, which count as 0."""
    odd = [-math.inf, -5e-324, 0.0, 5e-324, 1.7e308, math.inf, math.nan]
    ranks = [at / 7 for at in range(1, 8)]
    found = result(agg.quantiles("x", ranks), pa.table({"x": odd}))
    assert found[:4] == [-math.inf, 0.0, 0.0, 0.0]
    assert found[4:6] == [pytest.approx(1.7e308, rel=0.008), math.inf]
    assert math.isnan(found[6])
    assert result(agg.quantiles("x", [0.5]), pa.table({"x": pa.array([None], pa.float64())})) is None


def test_values_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes give the order only: even if all were equal, counts would be right."""
    monkeypatch.setattr(tallies, "stable_hashes", lambda values: np.zeros(len(values), dtype=np.uint64))
    rows = pa.table({"s": ["b", "a", None, "b", "c", "a", "d"]})
    a, state = folded(agg.count_distinct("s"), rows, [0, 0, 0, 1, 1, 1, 1])
    assert a.finish(state).to_pylist() == [2, 4]
    assert a.finish(a.merge_ranges(state, np.array([0, 0]), np.array([2, 0]))).to_pylist() == [4, 0]


def test_stored_hashes_never_change() -> None:
    """Sketches in checkpoints hold these very numbers."""
    assert stable_hashes(pa.array([0, 1, -1])).tolist() == GOLDEN["int"]
    assert stable_hashes(pa.array([0.0, 1.5, math.nan])).tolist() == GOLDEN["float"]
    assert stable_hashes(pa.array(["", "a", "ab", "ba", "é"])).tolist() == GOLDEN["text"]
    assert stable_hashes(pa.array(["", "a", "ab", "ba", "é"], pa.large_string())).tolist() == GOLDEN["text"]


def test_hashes_of_texts_do_not_depend_on_their_neighbours() -> None:
    """A text has one hash: alone, in a slice, and beside texts that fill a block of their own."""
    long = "x" * 3_000_000
    texts = pa.array(["a", long, "b", *(f"row {at}" for at in range(200_000)), long, "a"])
    hashes = stable_hashes(texts)
    assert hashes[0] == hashes[-1] == stable_hashes(pa.array(["a"]))[0]
    assert hashes[1] == hashes[-2] == stable_hashes(texts.slice(1, 1))[0]
    assert len(set(hashes.tolist())) == 200_003


def test_declarations_and_accumulators_travel() -> None:
    """Both are pickled to the workers and arrive equal."""
    declared = agg.arg_max("delay", "flight")
    a = bind(declared, pa.schema({"delay": pa.float64(), "flight": pa.string()}))
    assert pickle.loads(pickle.dumps(declared)) == declared  # noqa: S301 -- our own bytes
    assert pickle.loads(pickle.dumps(a)) == a  # noqa: S301
