"""The record of what a batch writes: read as it was written, and written by one process only."""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from panekeeper.state.checkpoint.folder import PREPARED_FOLDER, LocalFolder, prepared_file
from panekeeper.state.checkpoint.job_record import JobRecord
from panekeeper.state.codec import decode_header, encode_header
from panekeeper.state.errors import CorruptState
from panekeeper.state.prepared import (
    PreparedBatch,
    TableWrite,
    as_computed,
    is_recorded,
    last_decided,
    not_needed,
    prepare,
    read_prepared,
    reserve,
)

ROWS = pa.table(
    {
        "sensor": ["a", None],
        "at": pa.array([datetime(2024, 5, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")),
        "total": [Decimal("1.50"), None],
        "inner": [{"x": [1, 2]}, None],
    }
)
APPEND = TableWrite(role="log", path="/t/log", table="7f", transaction="readings/log@1#2", after=6, rows="results")
MERGE = replace(APPEND, role="view", path="/t/view", keys=["sensor", "pane_start"], newer_by="firing", since="at")
BATCH = PreparedBatch(
    number=7,
    epoch=2,
    spark_commit='v2\n{"nextBatchWatermarkMs":0}',
    writes=[APPEND, MERGE],
    rows={"results": ROWS, "rejected": ROWS.schema.empty_table()},
    large={"rejected": "panekeeper/prepared/2-7-ab"},
    large_counts={"rejected": 3},
    job="7f",
    sink_writer="readings/sink@1#2",
    is_flush=True,
    drain_file=3,
    resumed_us=5,
    declaration={"window.kind": "timeInterval", "history": {"numbers": {"n": 0}}},
)
EMPTY = PreparedBatch(number=0, epoch=0, spark_commit="v1\n{}", writes=[])


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    """A checkpoint."""
    return LocalFolder(tmp_path)


@pytest.mark.parametrize("batch", [BATCH, EMPTY], ids=["all fields", "nothing to write"])
def test_a_batch_is_read_as_it_was_prepared(folder: LocalFolder, batch: PreparedBatch) -> None:
    """With its rows, their types, and the columns of those that are stored elsewhere."""
    assert read_prepared(folder, batch.epoch, batch.number) is None
    prepare(folder, batch)
    found = read_prepared(folder, batch.epoch, batch.number)
    assert found == batch
    assert found is not None
    for name, rows in batch.rows.items():
        assert found.rows[name].schema == rows.schema


def test_one_of_two_processes_prepares_a_batch(folder: LocalFolder) -> None:
    """The other one, which may have computed other rows, is refused, and changes nothing."""
    prepare(folder, BATCH)
    with pytest.raises(FileExistsError):
        prepare(folder, replace(BATCH, is_flush=False))
    assert read_prepared(folder, 2, 7) == BATCH
    prepare(folder, replace(BATCH, epoch=3))  # of another epoch, which has tables and transactions of its own


def test_a_request_that_is_repeated_has_prepared_the_batch_once(folder: LocalFolder) -> None:
    """The store had written the file, and its response was lost: then the name is taken by the very same content."""
    prepare(folder, BATCH)
    prepare(folder, BATCH)
    assert read_prepared(folder, 2, 7) == BATCH


def test_a_process_that_was_paused_until_the_next_batch_is_refused(folder: LocalFolder) -> None:
    """The name is free again by then, as the batch is committed. What it wrote is removed."""
    folder.write_json("commits/7", {})
    prepare(folder, replace(BATCH, number=8))
    with pytest.raises(FileExistsError):
        prepare(folder, BATCH)
    assert folder.names(PREPARED_FOLDER) == ["2-8"]


def test_a_batch_that_is_reserved_is_recorded_by_the_owner_of_the_lease_alone(folder: LocalFolder) -> None:
    """A process was paused in the write of its record until another one took over: that one runs the batch (A2)."""
    job = JobRecord(name="readings", id="7f", declaration={}, group_ids=(0,), versions={}, epoch=2)
    folder.write_json("offsets/7", {})
    for _ in range(2):
        assert reserve(folder, 2, 7, "second")
        assert read_prepared(folder, 2, 7) is None
        assert not is_recorded(folder, job, 7)
        assert last_decided(folder, job) is None
        with pytest.raises(FileExistsError):
            prepare(folder, BATCH, "first")
    later = replace(BATCH, is_flush=False)
    prepare(folder, later, "second")
    assert read_prepared(folder, 2, 7) == later
    assert last_decided(folder, job) == 7
    assert not reserve(folder, 2, 7, "third")
    with pytest.raises(FileExistsError):
        prepare(folder, BATCH, "first")
    assert [*folder.names(PREPARED_FOLDER)] == ["2-7"]


def test_what_an_owner_has_reserved_is_the_next_ones(folder: LocalFolder) -> None:
    """It was killed, or paused: then it is refused as the one before."""
    assert reserve(folder, 2, 7, "first")
    assert reserve(folder, 2, 7, "second")
    for owner in ("first", ""):
        with pytest.raises(FileExistsError):
            prepare(folder, BATCH, owner)
    prepare(folder, BATCH, "second")


@pytest.mark.parametrize("who", ["records", "reserves"])
def test_an_owner_that_is_overtaken_while_it_takes_a_reservation_over_has_not_got_it(tmp_path: Path, who: str) -> None:
    """The owner before has recorded the batch at this moment, or a later one has reserved it."""

    class Overtaken(LocalFolder):
        def swap(self, name: str, old: bytes, new: bytes) -> None:
            if who == "records":
                prepare(LocalFolder(tmp_path), BATCH, "first")
            else:
                assert reserve(LocalFolder(tmp_path), 2, 7, "third")
            super().swap(name, old, new)

    assert reserve(LocalFolder(tmp_path), 2, 7, "first")
    assert not reserve(Overtaken(tmp_path), 2, 7, "second")
    assert read_prepared(LocalFolder(tmp_path), 2, 7) == (BATCH if who == "records" else None)
    with pytest.raises(FileExistsError):
        prepare(LocalFolder(tmp_path), replace(BATCH, is_flush=False), "second")


def test_a_process_that_was_suspended_while_it_replaced_a_file_is_not_waited_for(
    folder: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start asks some times, ends, and says why; once the other process goes on, it gets the batch."""
    waited = list[float]()
    monkeypatch.setattr(time, "sleep", waited.append)
    assert reserve(folder, 2, 7, "first")
    suspended = os.open(folder.path / PREPARED_FOLDER / ".lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(suspended, fcntl.LOCK_EX)
    assert not reserve(folder, 2, 7, "second")
    assert sum(waited) == pytest.approx(5)
    os.close(suspended)
    assert reserve(folder, 2, 7, "second")


def test_a_batch_that_was_recorded_before_it_said_by_which_declaration_is_of_that_in_the_record(
    folder: LocalFolder,
) -> None:
    """A job is stopped with such a record when its program gets a newer version of this library."""
    job = JobRecord(name="readings", id="7f", declaration={"window.kind": "sliding"}, group_ids=(0,), versions={})
    fields, rows = decode_header(replace(BATCH, epoch=0).to_bytes())
    assert fields.pop("declaration") == BATCH.declaration
    folder.write(prepared_file(0, 7), encode_header(fields, rows))
    folder.write_json("offsets/7", {})
    found = read_prepared(folder, 0, 7)
    assert found == replace(BATCH, epoch=0, declaration=None)
    assert as_computed(folder, job) is job


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_record_that_is_not_whole_is_refused(folder: LocalFolder, share: float) -> None:
    """It is never read as a smaller one."""
    content = BATCH.to_bytes()
    folder.write(prepared_file(2, 7), content[: int(len(content) * share)])
    with pytest.raises(CorruptState, match=r"panekeeper/prepared/2-7 .* is damaged.*from a savepoint"):
        read_prepared(folder, 2, 7)


def test_what_is_not_of_the_last_batch_is_not_needed(folder: LocalFolder) -> None:
    """Records of earlier batches and epochs, and rows that no record names."""
    for batch in (BATCH, replace(BATCH, number=6, large={}), replace(BATCH, epoch=1, large={})):
        prepare(folder, batch)
    for rows in ("2-7-ab", "2-7-cd"):
        folder.write(f"panekeeper/prepared/{rows}/part-0", b"")
    assert sorted(not_needed(folder, [BATCH])) == [f"panekeeper/prepared/{one}" for one in ("1-7", "2-6", "2-7-cd")]
