"""Whatever is wrong in the table of a load test is found: a row less, a row more, another sum."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.soak.account import Differences, compare, panes_together, sent_sums, stored_sums
from benchmarks.soak.load import Load
from tests.benchmarks.soak.loads import SMALL, right_log


def compared(log: pa.Table, load: Load = SMALL) -> Differences:
    """What is found in a log."""
    return compare(sent_sums(load, load.panes), *stored_sums(log))


def changed(column: str, by: int, row: int = 17) -> pa.Table:
    """The right log with another number in one row."""
    log = right_log()
    values = log[column].to_pylist()
    values[row] += by
    return log.set_column(log.column_names.index(column), column, pa.array(values, pa.int64()))


def test_what_was_sent_is_counted_and_added_up_by_key_and_pane() -> None:
    """As one would do row by row."""
    keys, values = SMALL.drawn(0, SMALL.rows)
    panes = SMALL.event_us(0, SMALL.rows) // SMALL.pane_us * SMALL.pane_us
    places = list(zip(panes.tolist(), keys.tolist(), strict=True))
    totals: Counter[tuple[int, int]] = Counter()
    for place, value in zip(places, values.tolist(), strict=True):
        totals[place] += value
    sums = sent_sums(SMALL, SMALL.panes)
    assert list(zip(sums.pane.tolist(), sums.key.tolist(), strict=True)) == sorted(set(places))
    for pane, key, count, total in zip(sums.pane, sums.key, sums.count, sums.total, strict=True):
        assert (count, total) == (places.count((pane, key)), totals[pane, key])


def test_a_table_with_every_row_once_has_no_differences() -> None:
    """In any order."""
    log = right_log()
    found = compared(log.take(list(reversed(range(log.num_rows)))))
    assert found == Differences(results=log.num_rows, rows=SMALL.rows)
    assert found.are_none


def test_one_lost_row_is_found() -> None:
    """Among 25,000, and named with its key."""
    found = compared(changed("n", -1))
    assert not found.are_none
    assert (found.lost, found.doubled, found.wrong) == (1, 0, 0)
    assert "sent" in found.examples[0]


def test_a_lost_result_counts_with_all_its_rows() -> None:
    """A pane of a key that never fired."""
    log = right_log()
    found = compared(log.slice(1))
    assert found.lost == log["n"][0].as_py()
    assert not found.are_none


def test_one_doubled_row_is_found() -> None:
    """As after a batch that was processed twice."""
    found = compared(changed("n", 1))
    assert not found.are_none
    assert (found.lost, found.doubled, found.wrong) == (0, 1, 0)


def test_a_row_counted_for_another_key_is_lost_and_doubled() -> None:
    """The number of rows in all is right, and the table is not."""
    moved = changed("n", -1, row=3)
    values = moved["n"].to_pylist()
    values[4] += 1
    found = compared(moved.set_column(moved.column_names.index("n"), "n", pa.array(values, pa.int64())))
    assert (found.lost, found.doubled) == (1, 1)


def test_a_wrong_sum_is_found() -> None:
    """Of the right number of rows."""
    found = compared(changed("total", 1))
    assert not found.are_none
    assert (found.lost, found.doubled, found.wrong) == (0, 0, 1)


def test_a_null_is_a_difference() -> None:
    """A sum that could not be computed is null in the table."""
    log = right_log()
    total = pc.if_else(pa.array([at == 5 for at in range(log.num_rows)]), None, log["total"])
    assert compared(log.set_column(log.column_names.index("total"), "total", total)).wrong == 1


def test_results_of_a_key_that_got_no_rows_are_doubled() -> None:
    """Rows from nowhere."""
    log = right_log()
    extra = log.slice(0, 1).set_column(0, "key", pa.array([777], pa.int64()))
    assert compared(pa.concat_tables([log, extra])).doubled == extra["n"][0].as_py()


def test_the_newest_refinement_counts_and_the_older_ones_are_no_differences() -> None:
    """A pane that fired before a late row came."""
    log = right_log()
    at = log.column_names.index("refinement")
    newest = log.set_column(at, "refinement", pa.array([1] * log.num_rows, pa.int64()))
    assert compared(pa.concat_tables([changed("n", -1), newest])).are_none


def test_a_firing_that_is_in_the_table_twice_is_found() -> None:
    """Although its count and its sum are right."""
    log = right_log()
    found = compared(pa.concat_tables([log, log.slice(8, 2)]))
    assert not found.are_none
    assert (found.repeated, found.lost, found.doubled) == (2, 0, 0)


def test_an_empty_table_has_lost_everything() -> None:
    """Nothing to compare is no success."""
    found = compared(right_log().slice(0, 0))
    assert (found.lost, found.are_none) == (SMALL.rows, False)


def test_parts_of_the_panes_add_up_to_all() -> None:
    """As much at a time as memory can hold; differences of any part are differences of the whole."""
    parts = panes_together(SMALL, 12_000)
    assert [list(part) for part in parts] == [list(SMALL.panes[at : at + 2]) for at in (0, 2, 4)]
    log, found = changed("n", -1), Differences()
    for part in parts:
        within = pc.is_in(log["pane_start"].cast(pa.int64()), pa.array(list(part)))
        found += compare(sent_sums(SMALL, part), *stored_sums(log.filter(within)))
    assert (found.rows, found.results, found.lost) == (SMALL.rows, log.num_rows, 1)
