"""Interval joins, by hand, and by facts of the suites of Kafka Streams and Flink."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec, PortSpec
from panekeeper.framework.core.joins.matching import matches
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Flush, Rows
from panekeeper.framework.declarations.joins import Join, JoinKind, Within
from panekeeper.state.store import MemoryStore
from tests.framework.core.joins.join_batches import FLUSH, Groups, Item, left, right, spec, watermark

MS = 0.001


def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Key, both values and reason of each row, sorted."""
    return sorted(((row["key"], row["a"], row["b"], row["reason"]) for row in rows), key=str)


def play(window: Within, how: JoinKind, *batches: list[Item]) -> list[list[tuple[Any, ...]]]:
    """The results of each micro-batch, with a restart before each."""
    job = Groups(spec(window, how))
    return [shown(job.run(batch)) for batch in batches]


def test_a_pair_goes_out_once_and_a_row_alone_when_no_partner_can_come() -> None:
    """Each with the columns of both.

    right              r1
    left      l1   l2       l3      before 3, after 1: l1 is at 3 too early, l2 meets r1, l3 has no partner
    time      1    5   6    9
    """
    job = Groups(spec(Within(3, 1), "left"))
    assert job.run([left("k", 1, 1), left("k", 5, 2), right("k", 6, 10), left("k", 9, 3)]) == [
        {"key": "k", "left_kind": 0, "a": 2, "right_kind": 0, "b": 10, "reason": "MATCH"},
        {"key": "k", "left_kind": 0, "a": 3, "right_kind": 0, "b": 10, "reason": "MATCH"},
    ]
    assert job.run([watermark(2)]) == []  # a partner of l1 may still come, at 2
    assert job.run([watermark(2.000001)]) == [
        {"key": "k", "left_kind": 0, "a": 1, "right_kind": None, "b": None, "reason": "NO_MATCH"}
    ]
    assert job.run([watermark(99), FLUSH]) == []
    assert [one.kept_rows for one in job.last] == [0]


def test_the_key_of_a_row_of_port_1_alone_is_in_the_column_of_port_0() -> None:
    """A result has the columns that are equal once."""
    job = Groups(spec(Within(0, 0), "full", on_kind=True))
    assert job.run([right("k", 1, 10, kind=7), watermark(5)]) == [
        {"key": "k", "kind": 7, "a": None, "b": 10, "reason": "NO_MATCH"}
    ]


def test_null_is_equal_to_nothing() -> None:
    """As in SQL: such rows go out alone, or not at all."""
    rows = [left(None, 1, 1), right(None, 1, 10), left("k", 1, 2, kind=None), right("k", 1, 20, kind=None)]
    for how, alone in (("inner", 0), ("left", 2), ("full", 4)):
        job = Groups(spec(Within(5, 5), how, on_kind=True))  # type: ignore[arg-type]
        assert [row["reason"] for row in job.run([*rows, watermark(99)])] == ["NO_MATCH"] * alone
    inner = Groups(spec(Within(5, 5), "inner", on_kind=True))
    inner.run(rows)
    assert [one.kept_rows for one in inner.last] == [0]  # they would only cost


def test_a_late_row_is_quarantined_and_one_of_the_discard_age_still_meets_its_partners() -> None:
    """The discard age keeps partners for late rows, and holds back rows without a match for so long.

    right          r1 (at 3, 5 s late)
    left      l1
    time      1    3            8 = watermark
    """
    job = Groups(spec(Within(0, 2, discard_age=5), "left"))
    assert job.run([left("k", 1, 1), watermark(8)]) == []
    assert shown(job.run([right("k", 3, 10), right("k", 2.999999, 11)])) == [("k", 1, 10, "MATCH")]
    ((port, text),) = job.late
    assert (port, '"b":11' in text) == (1, True)
    assert [one.counts for one in job.last] == [
        {"rows_in": 2, "admitted": 1, "refined_late": 0, "dropped_late": 1, "outside": 0, "repeated": 0}
    ]
    assert job.run([watermark(99)]) == []


def test_what_had_a_partner_is_known_until_the_row_goes() -> None:
    """The row at 15 is removed with all that is known of its block of slots, the one at 16 is in the next block."""
    found = play(
        Within(1, 1), "left", [left("k", 15, 1), left("m", 16, 2), right("m", 16, 20)], [watermark(17)], [watermark(99)]
    )
    assert found == [[("m", 2, 20, "MATCH")], [("k", 1, None, "NO_MATCH")], []]


def test_a_flush_gives_up_all_rows_and_takes_no_more() -> None:
    """Rows without a match go out with reason FLUSH."""
    first, second = play(Within(5, 5), "full", [left("a", 1, 1), right("b", 2, 10), FLUSH], [left("b", 2, 2), FLUSH])
    assert first == [("a", 1, None, "FLUSH"), ("b", None, 10, "FLUSH")]
    assert second == []


def test_equal_float_keys_meet() -> None:
    """0.0 and -0.0 are one key, and so is every NaN, as they are one partition."""
    columns = pa.schema([("f", pa.float64())])
    made = JobSpec(
        window=Within(1, 1),
        keys=columns,
        columns=columns,
        join=Join(how="inner", equal=(("f",), ("f",)), columns=({}, {})),
        output=pa.schema([]),
        other_ports=(PortSpec(window=Within(1, 1), keys=columns, columns=columns),),
    )
    tables = [
        pa.table({"f": pa.array(values, pa.float64()), EVENT_TIME: pa.array([0] * 3, pa.int64())})
        for values in ([0.0, float("nan"), 2.0], [-0.0, -float("nan"), 3.0])
    ]
    outcome = KeyGroupRunner(made, MemoryStore()).run([Rows(tables[0], 0), Rows(tables[1], 1), Flush()])
    assert outcome.results is not None
    assert [str(key) for key in sorted(outcome.results.column("f").to_pylist(), key=str)] == ["0.0", "nan"]


def test_every_pair_of_a_key_in_reach_is_found_at_once() -> None:
    """Two of the same time are two; a range that ends before it begins holds none."""
    import numpy as np

    times = np.array([1, 1, 2, 5])
    own, other = matches(np.array([0, 0, 1]), np.array([1, 9, 2]), np.array([2, 3, 2]), np.array([0, 0, 0, 1]), times)
    assert (own.tolist(), other.tolist()) == ([0, 0, 0], [0, 1, 2])


def test_state_follows_the_new_rows_and_goes_with_the_watermark() -> None:
    """A batch writes its own rows, and what the watermark has passed is removed."""
    job = Groups(spec(Within(60, 60), "inner"))
    for second in range(0, 600, 10):
        job.run([left("k", second, second), right("other", second, second), watermark(second - 20)])
        (outcome,) = job.last
        assert (outcome.kept_rows or 0) <= 2 * (60 + 20 + 10 + 15) // 10
        assert len(job.stores[0].entries) <= 24
    assert job.run([watermark(10_000)]) == []
    assert (job.stores[0].entries, [one.kept_rows for one in job.last]) == ({}, [0])
    assert [one.due_watermark_us for one in job.last] == [None]


# -- Flink: IntervalJoinOperatorTest -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lower", "upper", "pairs"),
    [
        (-2, -1, [(2, 1), (3, 1), (3, 2), (4, 2), (4, 3)]),
        (-1, 1, [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (3, 4), (4, 3), (4, 4)]),
        (1, 2, [(1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]),
    ],
)
def test_bounds_are_those_of_flink(lower: int, upper: int, pairs: list[tuple[int, int]]) -> None:
    """Times 1 to 4 on both sides, the watermark after each; facts of `IntervalJoinOperatorTest`, bounds inclusive."""
    batches = [[left("k", t, t), right("k", t, t), watermark(t)] for t in range(1, 5)]
    found = play(Within(-lower, upper), "inner", *batches)
    assert sorted((a, b) for some in found for _, a, b, _ in some) == pairs


def test_a_join_goes_on_after_a_restore_as_flinks_does() -> None:
    """`IntervalJoinOperatorTest.testRestoreFromSnapshot`: what was kept before meets what comes after."""
    before = [one for t in (1, 2, 3) for one in (left("k", t, t), right("k", t, t), watermark(t))]
    first, second = play(Within(1, 1), "inner", before, [left("k", 4, 4), right("k", 4, 4), watermark(4)])
    assert [(a, b) for _, a, b, _ in first] == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3)]
    assert [(a, b) for _, a, b, _ in second] == [(3, 4), (4, 3), (4, 4)]


@pytest.mark.parametrize(
    ("lower", "upper", "kept"), [(-1, 0, {1: (5, 5), 4: (2, 3), 6: (0, 1)}), (0, 1, {1: (5, 5), 4: (3, 2), 6: (1, 0)})]
)
def test_state_goes_when_flinks_goes_or_one_instant_later(lower: int, upper: int, kept: dict[int, Any]) -> None:
    """`IntervalJoinOperatorTest.testStateCleanup*`, times 1 to 5, watermarks 1, 4 and 6.

    Flink removes a row when the watermark reaches its last possible partner, since a watermark says there that no row
    of that very time comes. Here such a row may come, so a row stays until the watermark has passed its last partner:
    (4, 5), (1, 2) and (0, 0) remain in Flink for [-1, 0], and here the row at 5 may still meet one at 6.
    """
    job = Groups(spec(Within(-lower, upper), "inner"))
    job.run([one for t in range(1, 6) for one in (left("k", t, t), right("k", t, t))])
    for at, expected in kept.items():
        job.run([watermark(at)])
        assert tuple(sum(rows for rows, _ in port.values()) for port in slots(job)) == expected


def slots(job: Groups) -> list[dict[int, tuple[int, int]]]:
    """Rows by slot of each port, which are seconds here, and the first time of each."""
    from panekeeper.state.records import JoinRecord

    return [port.slots for port in JoinRecord.decode(job.stores[0].header).ports]


# -- Kafka Streams: KStreamKStreamLeftJoinTest, KStreamKStreamOuterJoinTest --------------------------------------------


def test_windows_are_those_of_kafka() -> None:
    """`KStreamKStreamLeftJoinTest.testWindowing`, 100 ms: by time of the left row, which of keys 0 to 3 match.

    Right rows of keys 0 to 3 are at 1000 to 1003 ms. Kafka's old rule sends each left row at once, with null if it has
    no match yet; here it waits, so only which rows match is compared.
    """
    rights = [right("0123"[i], (1000 + i) * MS, i) for i in range(4)]
    matching = {1100: "0123", 1101: "123", 1102: "23", 1103: "3", 1104: "", 899: "", 900: "0", 901: "01", 903: "0123"}
    for time, keys in matching.items():
        (found,) = play(Within(0.1, 0.1), "left", [*rights, *(left(key, time * MS, 0) for key in "0123"), FLUSH])
        assert "".join(key for key, _, b, _ in found if b is not None) == keys
        assert len(found) == 4


def test_rows_without_a_match_go_out_when_kafkas_do() -> None:
    """`KStreamKStreamOuterJoinTest.testGracePeriod`, 100 ms and a grace of 10 ms: at 101 not yet, at 112.

    Kafka's time is that of the newest record of either side.
    """
    found = play(
        Within(0.1, 0.1, discard_age=0.01),
        "full",
        [left("0", 0, 0), right("1", 0, 11), watermark(0)],
        [left("1", 101 * MS, 1), right("0", 101 * MS, 10), watermark(101 * MS)],
        [right("0", 112 * MS, 100), watermark(112 * MS)],
    )
    assert found == [[], [], [("0", 0, None, "NO_MATCH"), ("1", None, 11, "NO_MATCH")]]


def test_what_has_met_a_partner_does_not_go_out_alone() -> None:
    """`KStreamKStreamOuterJoinTest.testRightExpiredNonJoinedRecordsAreEmittedByTheLeftProcessor`, 100 ms."""
    found = play(
        Within(0.1, 0.1),
        "full",
        [right("0", 1 * MS, 10), right("1", 2 * MS, 11), right("0", 3 * MS, 12), watermark(3 * MS)],
        [left("1", 3 * MS, 1)],
        [left("2", 401 * MS, 2), watermark(401 * MS)],
        [right("2", 402 * MS, 100), watermark(402 * MS)],
    )
    assert found == [
        [],
        [("1", 1, 11, "MATCH")],
        [("0", None, 10, "NO_MATCH"), ("0", None, 12, "NO_MATCH")],
        [("2", 2, 100, "MATCH")],
    ]


def test_each_side_waits_as_long_as_its_own_bound() -> None:
    """`KStreamKStreamOuterJoinTest.testEmitAllNonJoinedResultsForAsymmetricWindow`: 5 ms before, 20 ms after.

    A left row at 29 waits until 49 has passed, a right one at 31 until 36 has.
    """
    window = Within(5 * MS, 20 * MS)
    rows = [left("0", 29 * MS, 0), left("1", 30 * MS, 1), right("2", 31 * MS, 12), right("3", 36 * MS, 13)]
    found = play(window, "full", [*rows, watermark(36 * MS)], [watermark(37 * MS)], [watermark(50 * MS)])
    assert found == [
        [],
        [("2", None, 12, "NO_MATCH")],
        [("0", 0, None, "NO_MATCH"), ("3", None, 13, "NO_MATCH")],
    ]
