"""What is known of a partition, from what is stored of its key group and the tables of its job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper import TimeInterval, agg
from panekeeper.diagnostics.inspector.opened import Opened
from panekeeper.diagnostics.inspector.partition import Partition
from panekeeper.diagnostics.inspector.why import bounds_of, without_time
from panekeeper.diagnostics.keys import key_as_stored
from panekeeper.framework.core.inspection.reasons import Verdict
from panekeeper.framework.core.inspection.recorded import recorded_ports
from panekeeper.framework.core.inspection.refusals import Refusal
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Watermark
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.recovery.storage.files import LocalFiles
from panekeeper.state.checkpoint.job_record import JobRecord
from panekeeper.state.compatibility import fingerprint
from panekeeper.state.store import MemoryStore
from tests.fake_checkpoint import FakeCheckpoint
from tests.framework.core.panes.firings import spec_of

TEN = datetime(2024, 5, 1, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
WINDOW = TimeInterval(3600)
QUARANTINE = pa.schema(
    [
        ("batch", pa.int64()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("row", pa.string()),
        ("quarantined_at", pa.timestamp("us", "UTC")),
    ]
)


def us(time: datetime) -> int:
    """A time in us since the epoch."""
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def partition(folder: Path, customer: str | None, watermarks: Sequence[datetime], acted_on: datetime) -> Partition:
    """A partition of panes of an hour: batch by batch the watermark of the job, and the one of its key group."""
    batches = pa.table(
        {"batch": [*range(len(watermarks))], "watermark": pa.array(watermarks, pa.timestamp("us", "UTC"))}
    )
    write_deltalake(str(folder / "metrics"), batches)
    firing = {"refinement": 0, "reason": "WATERMARK", "is_final": True, "op": 1, "n": 3}
    fired = [{"customer": one, "pane_start": TEN - HOUR, "pane_end": TEN, **firing} for one in ("dorra", None)]
    write_deltalake(str(folder / "log"), pa.Table.from_pylist(fired))
    late = {"batch": 0, "reason": "LATE", "detail": None, "event_time": TEN, "row": '{"customer":"zeta","n":1}'}
    write_deltalake(str(folder / "quarantine"), pa.Table.from_pylist([late | {"quarantined_at": TEN}], QUARANTINE))
    store = MemoryStore()
    KeyGroupRunner(spec_of(WINDOW), store).run([Watermark(us(acted_on))])
    declaration = fingerprint(
        {
            "window": WINDOW.declaration(),
            "partition_by": {"customer": "string"},
            "event_time": "at",
            "aggregate": {"n": agg.count().declaration()},
            "output": {"n": "int64"},
        }
    )
    job, tables = (
        FakeCheckpoint(folder / "c").run(len(watermarks)),
        {one: str(folder / one) for one in ("metrics", "log", "quarantine")},
    )
    job.tables(**tables)
    port, files = recorded_ports(declaration)[0], job.files
    assert isinstance(files, LocalFiles)
    state = Opened(
        session=lambda: pytest.fail("no session is needed"),
        files=files,
        record=JobRecord(name="billing", id="0", declaration=declaration, group_ids=(1, 2), versions={}),
        ports=[port],
        batch=len(watermarks) - 1,
        first=0,
        tables=tables,
    )
    key = key_as_stored(state.session, (1, 2), {"customer": pa.string()}, {"customer": customer})
    return Partition(state, port, key, store)


def test_the_watermark_of_an_answer_is_the_one_of_the_job(tmp_path: Path) -> None:
    """Whatever the key group of the partition has acted on: nothing may have come to it since."""
    asked = partition(tmp_path, "dora", [TEN, TEN + HOUR * 3], acted_on=TEN)
    answer = asked.why(us(TEN), us(TEN + HOUR))
    assert answer.verdict is Verdict.NEVER
    assert "it closed at the watermark 2024-05-01T11:00:00Z, which is now 2024-05-01T13:00:00Z" in answer.reasons[0]
    assert asked.why(us(TEN + HOUR * 3), us(TEN + HOUR * 4)).reasons[0] == (
        "no row of it has come; it takes rows until the watermark, now 2024-05-01T13:00:00Z, reaches "
        "2024-05-01T14:00:00Z"
    )


def test_a_pane_that_closed_is_told_with_its_results(tmp_path: Path) -> None:
    """The result columns of the log, of the partition that is asked for; of an operator's rows how many there are."""
    asked = partition(tmp_path, "dorra", [TEN, TEN + HOUR * 3], acted_on=TEN)
    pane = us(TEN - HOUR), us(TEN)
    assert asked.why(*pane).reasons[0].startswith("it fired in batch 0 with n=3: the watermark ")
    refined = {"pane_start": TEN - HOUR, "pane_end": TEN, "refinement": 1, "reason": "LATE", "is_final": True, "op": 1}
    more = [{"customer": "dorra", **refined, "n": n} for n in (4, 5)]
    write_deltalake(str(tmp_path / "log"), pa.Table.from_pylist(more), mode="append")
    first, second, *_ = asked.why(*pane).reasons
    assert first.startswith("it fired in batch 0 with n=3: ")
    assert second.startswith("it fired with 2 result rows: late rows had come")


def settle(log: Path, customer: str, start: datetime) -> None:
    """Commit the result of a pane of a customer, as a settlement does."""
    bounds = {"pane_start": start, "pane_end": start + HOUR}
    row = {"customer": customer, **bounds, "refinement": 0, "reason": "SETTLED", "is_final": False, "op": 1, "n": 1}
    once = CommitProperties(app_transactions=[Transaction("billing@0#0#settled", 0)])
    write_deltalake(str(log), pa.Table.from_pylist([row]), mode="append", commit_properties=once)


def test_a_row_that_a_settlement_has_added_is_settled(tmp_path: Path) -> None:
    """As its pane is, in the same words, and nothing is offered that adds nothing; a row that came later is dropped."""
    asked = partition(tmp_path, "zeta", [TEN, TEN + HOUR * 3], acted_on=TEN)
    pane, next_one = (us(TEN), us(TEN + HOUR)), (us(TEN + HOUR), us(TEN + 2 * HOUR))
    before = asked.why_refused(us(TEN), [pane], asked.refused)
    assert (before.verdict, before.reasons[-1]) == (
        Verdict.DROPPED,
        "`panekeeper settle CHECKPOINT --job JOB.PY --reason LATE` can add them",
    )
    settle(tmp_path / "log", "zeta", TEN)
    of_row, of_pane = asked.why_refused(us(TEN), [pane, next_one], asked.refused), asked.why(*pane)
    assert (of_row.verdict, of_pane.verdict) == (Verdict.SETTLED, Verdict.SETTLED)
    assert of_row.reasons == ("its pane is 2024-05-01T10:00:00Z/2024-05-01T11:00:00Z", *of_pane.reasons)
    assert of_pane.reasons[0] == "it fired with n=1: rows that had come too late were settled (SETTLED)"
    assert of_pane.reasons[-1] == "a settlement has added them"

    (row,) = asked.refused
    later = replace(row, refused_at=us(datetime(2100, 1, 1, tzinfo=UTC)))
    assert asked.why_refused(us(TEN), [pane], [later]) == before
    DeltaTable(str(tmp_path / "log")).optimize.compact()  # which file is the settlement's is not known any more
    unsure = asked.why_refused(us(TEN), [pane], asked.refused)
    assert unsure.verdict is Verdict.SETTLED
    assert unsure.reasons[-1].startswith("a settlement has added those that were there then; ")


def test_a_partition_of_the_quarantine_alone_is_called_alike(tmp_path: Path) -> None:
    """Also where a time of day is asked for, which is then not what is wrong."""
    asked = partition(tmp_path, "Zeta", [TEN], acted_on=TEN)
    alike = "partitions that are called alike: customer=zeta"
    assert asked.why(us(TEN), us(TEN + HOUR)).reasons[-1].endswith(alike)
    with pytest.raises(DeclarationError, match=f"a time of day, and nothing of this partition is known; {alike}$"):
        bounds_of(asked.port, asked, "10:00")


def test_where_no_partition_is_called_alike_those_that_there_are_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of them by their names: in the answer for a pane, and where a time of day is asked for."""
    asked = partition(tmp_path, "wim", [TEN], acted_on=TEN)
    monkeypatch.setattr(asked, "_open_keys", lambda: [(f"{n}",) for n in range(4)])
    there = "partitions that there are: customer=0, customer=1, customer=2, customer=3, customer=None and 2 more"
    assert asked.why(us(TEN), us(TEN + HOUR)).reasons[-1].endswith(there)
    with pytest.raises(DeclarationError, match=f"nothing of this partition is known; {there}$"):
        bounds_of(asked.port, asked, "10:00")


def test_of_several_panes_with_a_time_of_day_one_is_to_be_given_by_its_bounds(tmp_path: Path) -> None:
    """The day would not tell them apart where they overlap; of a known partition without such a pane it helps."""
    asked = partition(tmp_path / "one", "dorra", [TEN], acted_on=TEN)
    with pytest.raises(DeclarationError, match="no pane that is known has it; give the day, too, as 2013-03-08T10:30"):
        bounds_of(asked.port, asked, "10:30")
    asked = partition(tmp_path / "two", "dorra", [TEN], acted_on=TEN)
    settle(tmp_path / "two/log", "dorra", TEN - HOUR / 2)
    both = "2024-05-01T09:00:00Z/2024-05-01T10:00:00Z, 2024-05-01T09:30:00Z/2024-05-01T10:30:00Z"
    with pytest.raises(DeclarationError, match=f"2 panes that are known have it; give one as START/END, as {both}$"):
        bounds_of(asked.port, asked, "09:47")


@pytest.mark.parametrize("customer", ["null", "-", "", "None"])
def test_who_asks_for_the_text_of_a_null_is_told_how_to_ask_for_the_null(customer: str, tmp_path: Path) -> None:
    """A null is a partition like any, and its pane is found when it is asked for."""
    asked = partition(tmp_path / "text", customer, [TEN], acted_on=TEN)
    hint = "there is a partition with a null in customer; ask for it by --null customer, in Python by None"
    assert asked.why(us(TEN - HOUR), us(TEN)).reasons[-1].endswith(hint)
    of_null = partition(tmp_path / "null", None, [TEN], acted_on=TEN)
    assert of_null.known_panes() == {(us(TEN - HOUR), us(TEN)): "closed"}
    assert of_null.meant_instead() == []


def test_a_text_of_a_null_is_no_value_of_another_type() -> None:
    """It is told how a null is given, by the name of the column."""
    with pytest.raises(
        DeclarationError, match="key has shop='null', which is no int32; a null is given by --null shop"
    ):
        key_as_stored(lambda: pytest.fail("no session is needed"), (1,), {"shop": pa.int32()}, {"shop": "null"})


def test_a_row_without_an_event_time_is_told_where_it_went() -> None:
    """It is in the quarantine, of no pane, with the batch that refused it if there was one."""
    found = without_time(
        [Refusal(reason="LATE", detail="", at=1, batch=1), Refusal(reason="NULL_EVENT_TIME", detail="", batch=4)]
    )
    assert (found.verdict, found.batch) == (Verdict.QUARANTINED, 4)
    assert "goes to the quarantine as NULL_EVENT_TIME" in found.reasons[0]
    assert without_time([]).verdict is Verdict.NEVER
