"""Which rows batches have added to a table, by its commits: without Spark, where the files are plain."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper import CheckpointError
from panekeeper.diagnostics.tables.written import files_of_batches, rows_of_batches
from panekeeper.framework.engine.sink.library_table import FENCED
from panekeeper.state.checkpoint.epochs import BEGIN_FILE, Begin
from panekeeper.state.checkpoint.job_record import read_record
from tests.fake_checkpoint import FakeCheckpoint


class Written:
    """A job with a log that is written as a job writes it: each batch one commit under its transaction."""

    def __init__(self, folder: Path) -> None:
        self.job = FakeCheckpoint(folder / "c")
        self.log = str(folder / "log")
        self.job.tables(log=self.log)
        write_deltalake(self.log, pa.table({"n": pa.array([], pa.int64())}))

    def commit(self, rows: list[int], *, epoch: int = 0, **notes: int) -> None:
        """Add rows, with notes `batch=3`, or any other role of a transaction."""
        known = {"batch": f"readings/log@0123456789ab#{epoch}", "settled": f"readings@0123456789ab#{epoch}#settled"}
        known["of_metrics"] = "readings/metrics@0123456789ab#0"
        txns = [Transaction(known[name], version) for name, version in notes.items()]
        table = pa.table({"n": pa.array(rows, pa.int64())})
        write_deltalake(self.log, table, mode="append", commit_properties=CommitProperties(app_transactions=txns))

    def begun(self, kind: str) -> None:
        """The current epoch began so."""
        fields = vars(Begin(kind=kind, done=()))  # type: ignore[arg-type]
        self.job.put(BEGIN_FILE, json.dumps(fields))

    def rows(self, first: int, last: int, *, epoch: int = 0) -> dict[int, list[int]]:
        record = read_record(self.job.files)
        assert record is not None
        record = type(record)(**{**vars(record), "epoch": epoch})
        found = rows_of_batches(None, self.job.files, record, "log", first, last)  # type: ignore[arg-type]
        return {batch: sorted(rows.column("n").to_pylist()) for batch, rows in found}


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Batches 0, 2 and 5; a settlement, and rows of another program, between them."""
    made = Written(tmp_path)
    made.commit([1, 2], batch=0)
    made.commit([3], batch=2)
    made.commit([99], settled=3)
    made.commit([98])
    made.commit([4, 5], batch=5, of_metrics=7)
    return made


def test_rows_are_told_by_the_batch_that_wrote_them(written: Written) -> None:
    """Also after the files were compacted; those of settlements and of others are of no batch."""
    everything = {0: [1, 2], 2: [3], 5: [4, 5]}
    assert written.rows(0, 9) == everything
    assert written.rows(1, 4) == {2: [3]}
    assert written.rows(3, 4) == {}
    DeltaTable(written.log).optimize.compact()
    assert written.rows(0, 9) == everything


def test_what_a_restore_has_discarded_is_not_there(written: Written) -> None:
    """The batches after it are those of the new epoch, also where one of them wrote nothing this time."""
    version = DeltaTable(written.log).version()
    DeltaTable(written.log).restore(version - 1)
    written.commit([], epoch=0, batch=FENCED)
    written.commit([], epoch=1, batch=4)
    written.commit([7], epoch=1, batch=6)
    assert written.rows(0, 9, epoch=1) == {0: [1, 2], 2: [3], 6: [7]}


def test_before_a_reset_there_is_nothing(written: Written) -> None:
    """The log keeps the rows, and the numbers of batches begin anew, whether or not the new ones wrote some."""
    written.begun("reset")
    assert written.rows(0, 9, epoch=1) == {}
    written.commit([7], epoch=1, batch=1)
    assert written.rows(0, 9, epoch=1) == {1: [7]}
    assert written.rows(0, 9, epoch=10) == {}


def test_a_log_that_has_forgotten_its_first_commits_says_from_where_on_it_knows(written: Written) -> None:
    """As far as its commits are there, the rows are told; a job without such a table has none."""
    for version in range(3):
        (Path(written.log) / "_delta_log" / f"{version:020d}.json").unlink()
    assert files_of(written, 5) == [5]
    with pytest.raises(CheckpointError, match=r"no longer has the commits of its first batches, .* from 5 on"):
        files_of(written, 1)
    with pytest.raises(CheckpointError, match="names no table view"):
        files_of(written, 0, "view")


def files_of(written: Written, first: int, role: str = "log") -> list[int]:
    """The batches of the files that are found."""
    record = read_record(written.job.files)
    assert record is not None
    return [*files_of_batches(written.job.files, record, role, first, 9).values()]
