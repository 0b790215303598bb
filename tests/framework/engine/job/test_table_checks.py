"""Whether tables and checkpoint fit together at a start: one of them may have been put back from a backup."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from panekeeper.framework.declarations.errors import CheckpointError, SinkError
from panekeeper.framework.engine.job.table_checks import (
    require_all_batches,
    require_no_discarded_rows,
    require_no_later_batch,
    require_same_roles,
)
from panekeeper.framework.engine.sink.library_rules import table_of
from panekeeper.framework.engine.sink.library_table import FENCED, LibraryTable
from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import OWNER, JobRecord, last_batches
from tests.framework.engine.sink.test_library_table import LOG, log_rows, make

RECORD = JobRecord(name="readings", id="0123456789ab", declaration={}, group_ids=(0,), epoch=0, versions={})


class Tables:
    """The log and the view of a job, real tables, and what its checkpoint has recorded of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = {role: make(folder / role, LOG) for role in ("log", "view")}
        for path in self.paths.values():
            LibraryTable(path).own(OWNER, int(RECORD.id, 16), take=False)
        self.record = RECORD
        self.recorded: dict[str, dict[str, Any]] = {}

    def start(self) -> None:
        """Check the tables as a start does, and take note of them."""
        self.recorded = require_all_batches(self.recorded, self.record, self.now(), written=self.paths.values())

    def now(self) -> dict[str, TableAtVersion]:
        """Read the tables."""
        return {role: table_of(DeltaTable(path), str(path)) for role, path in self.paths.items()}

    def begin_epoch(self) -> None:
        """Do to the tables what a restore or a reset does."""
        self.record, self.recorded = JobRecord(**{**RECORD.to_json(), "epoch": 1}), {}
        for role in ("log", "view"):
            notes = {RECORD.transaction(role): FENCED, self.record.joined(role): 1}
            LibraryTable(str(self.paths[role])).note(notes)

    def commit(self, batch: int, *roles: str) -> None:
        """Write a row to some of the tables, as a batch of the job, which is committed."""
        for role in roles:
            LibraryTable(str(self.paths[role])).append(log_rows("a"), self.record.transaction(role), batch)
            self.recorded[role] = {**self.recorded[role], "batch": batch}

    def copy(self, role: str) -> Callable[[], None]:
        """Copy the files of a table, and return what puts them back."""
        path, copy = self.folder / role, self.folder / f"{role}-copy"
        shutil.copytree(path, copy)

        def put_back() -> None:
            shutil.rmtree(path)
            shutil.copytree(copy, path)

        return put_back

    def make_again(self, role: str) -> None:
        """Remove a table, and make an empty one in its place."""
        shutil.rmtree(self.folder / role)
        make(self.folder / role, LOG)


def written_tables(folder: Path) -> Tables:
    """Batches 0 and 3 have results, 4 has none."""
    made = Tables(folder)
    made.start()
    made.commit(0, "log", "view")
    made.commit(3, "log", "view")
    made.commit(4)
    return made


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Those of a job that has committed five batches."""
    return written_tables(tmp_path)


@pytest.mark.parametrize("role", ["log", "view"])
def test_a_table_that_was_put_back_from_a_backup_is_refused(tables: Tables, role: str) -> None:
    """Its missing rows would never come: the batches are committed. The error names each way out."""
    put_back = tables.copy(role)
    tables.commit(5, "log", "view")
    tables.start()
    put_back()
    with pytest.raises(SinkError) as refused:
        tables.start()
    path = tables.paths[role]
    assert f"the {role} {path} is an older copy: batch 3 is the newest that it has of this job, and batch 5" in str(
        refused.value
    )
    for way_out in ("Put the table back", "restore a savepoint", "reset the job", "new checkpoint folder"):
        assert way_out in str(refused.value)


def test_a_table_that_was_made_again_is_refused(tables: Tables) -> None:
    """It is another one, though it may have all columns; an empty one that the job had not written to does no harm."""
    tables.make_again("view")
    with pytest.raises(SinkError, match=r"the view .* is another table than .* results of batches up to 3"):
        tables.start()
    for batch in range(4, 7):
        tables.commit(batch, "view")
    with pytest.raises(SinkError, match="is another table than"):  # also once later batches are in it
        tables.start()
    unused = Tables(tables.folder / "unused")
    unused.start()
    unused.make_again("view")
    unused.start()


@pytest.mark.parametrize("role", ["log", "view"])
def test_after_a_restore_a_backup_of_before_it_is_refused_also_without_a_batch(tables: Tables, role: str) -> None:
    """It has no batch of the new epoch, like the table; but it has not joined the epoch, as that has."""
    put_back = tables.copy(role)
    tables.begin_epoch()
    tables.start()
    put_back()
    with pytest.raises(SinkError, match=rf"the {role} .* is an older copy: .* before the last restore or reset"):
        tables.start()


def test_commits_of_others_and_an_unfinished_batch_are_accepted(tables: Tables) -> None:
    """Whatever leaves the transactions where they are: OPTIMIZE, VACUUM, DELETE, RESTORE, a checkpoint of the log."""
    path = str(tables.paths["log"])
    DeltaTable(path).optimize.compact()
    DeltaTable(path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    DeltaTable(path).delete("sensor = 'a'")
    DeltaTable(path).create_checkpoint()
    DeltaTable(path).cleanup_metadata()
    tables.start()
    LibraryTable(path).append(log_rows("b"), RECORD.transaction("log"), 5)
    tables.start()


@pytest.mark.parametrize("change", ["epoch", "path", "older"])
def test_what_was_recorded_counts_for_one_epoch_and_one_folder(tables: Tables, change: str) -> None:
    """A restore, a reset or a clone changes the transaction ids; a restored one has recorded nothing."""
    if change == "epoch":
        tables.begin_epoch()
    elif change == "path":
        tables.paths["view"] = make(tables.folder / "other", LOG)
    else:
        tables.recorded = {}
    if change == "older":
        tables.make_again("view")
    tables.start()


@pytest.mark.parametrize(("last", "why"), [(8, "has batch 8 already"), (FENCED, "was restored or reset since")])
def test_a_checkpoint_that_is_behind_its_tables_is_refused(tmp_path: Path, last: int, why: str) -> None:
    """Put back from a backup of its files: a table would skip its batches by their numbers, whatever rows they have."""
    refusal = f"recorded no batch after 7, and the view /view of job 'readings' {why}.*; or, if there is neither, reset"
    with pytest.raises(CheckpointError, match=refusal):
        _check_checkpoint(tmp_path, begun=7, log=6, view=last)


@pytest.mark.parametrize(("begun", "last"), [(None, -1), (7, 6), (7, 7)])
def test_a_checkpoint_may_be_ahead_of_its_tables(tmp_path: Path, begun: int | None, last: int) -> None:
    """New; with a batch that only some tables have, or none; or that wrote nothing to a table."""
    _check_checkpoint(tmp_path, begun=begun, log=last, view=-1)


def _check_checkpoint(path: Path, *, begun: int | None, log: int, view: int) -> None:
    folder, versions = LocalFolder(path), {"log": log, "view": view}
    for name, last in (("offsets", begun), ("commits", 6)):
        if last is not None:
            folder.write_json(f"{name}/{last}", {})
    tables = {role: with_batch(f"/{role}", version) for role, version in versions.items()}
    require_no_later_batch(folder.root, RECORD, tables, begun=last_batches(folder)[0])


def with_batch(path: str, batch: int) -> TableAtVersion:
    """A table with a batch of the job."""
    return TableAtVersion.of_actions(path, 0, {}, {}, lambda app_id: batch if app_id.endswith("ab#0") else -1)


def test_a_log_and_a_view_that_were_exchanged_are_refused() -> None:
    """The log would be merged into. The last start has named them."""
    require_same_roles(RECORD, {"log": "/log", "view": "/view"}, {"log": "/log", "view": "/view"})
    with pytest.raises(SinkError, match=r"view is declared as the log of job 'readings', which has written its view"):
        require_same_roles(RECORD, {"log": "/view", "view": "/log"}, {"log": "/log", "view": "/view"})
    with pytest.raises(SinkError, match=r"log is declared as the quarantine of job 'readings'"):
        require_same_roles(RECORD, {"quarantine": "/log"}, {"log": "/view/../log"})


@pytest.mark.parametrize("name", ["file:{path}", "{path}/../{role}", "{path}-copy"])
def test_an_older_copy_is_refused_by_whatever_name(tables: Tables, name: str) -> None:
    """Another spelling of its folder, and a copy in another one, which has the id of the table."""
    put_back = tables.copy("log")
    tables.commit(5, "log", "view")
    tables.start()
    path = tables.paths["log"]
    tables.paths["log"] = name.format(path=path, role="log")
    if not name.endswith("-copy"):
        tables.start()
        put_back()
    with pytest.raises(SinkError, match=r"the log .* is an older copy"):
        tables.start()


def test_a_whole_copy_takes_the_place_of_a_table(tables: Tables) -> None:
    """It is moved to another disk. Another table begins empty."""
    tables.copy("log")
    tables.paths["log"] = f"{tables.paths['log']}-copy"
    tables.start()
    tables.paths["log"] = make(tables.folder / "new", LOG)
    tables.start()


def test_a_table_that_was_left_out_is_no_older_copy_when_it_is_declared_again(tables: Tables) -> None:
    """It has what it had then. Which tables the job has is not taken from it."""
    view, put_back = tables.paths["view"], tables.copy("view")
    tables.commit(5, "log", "view")
    del tables.paths["view"]
    for _ in range(2):
        tables.start()
        tables.commit(6, "log")
    tables.paths["view"] = view
    tables.start()
    put_back()
    with pytest.raises(SinkError, match=r"the view .* is an older copy: batch 3 is the newest .* and batch 5"):
        tables.start()


def require_not_discarded(tables: Tables, *, written: Collection[str], epoch: int = 1, **fields: Any) -> None:
    """Check the tables as a start does in a later epoch, with a checkpoint that names some of them."""

    def has_rows(path: str) -> bool:
        return bool(DeltaTable(path).to_pyarrow_table().num_rows)

    record = replace(RECORD, epoch=epoch, **fields)
    require_no_discarded_rows(record, tables.now(), written, has_rows)


def test_a_table_that_did_not_go_back_with_a_restore_is_refused(tables: Tables) -> None:
    """The job had other tables when its savepoint was made: batches that are run again would be there twice."""
    both = [str(path) for path in tables.paths.values()]
    require_not_discarded(tables, written=both)
    for epoch in (1, 2):
        with pytest.raises(SinkError, match=r"the view \S+/view has rows of job 'readings' from before a restore"):
            require_not_discarded(tables, written=both[:1], epoch=epoch)
    DeltaTable(both[1]).delete()
    require_not_discarded(tables, written=both[:1])


def test_a_table_that_another_checkpoint_of_the_job_had_is_refused(tables: Tables) -> None:
    """A restore to another folder, or in place of one that was lost, has taken its place, and has an id of its own."""
    log, restored = [str(tables.paths["log"])], "ba9876543210"
    require_not_discarded(tables, written=log, id=restored)
    require_not_discarded(tables, written=log, id=restored, former={"a" * 12: 3})
    for last in (0, 3):
        with pytest.raises(SinkError, match=r"the view \S+/view has rows of job 'readings' from before a restore"):
            require_not_discarded(tables, written=log, id=restored, former={"a" * 12: 3, RECORD.id: last})


@pytest.mark.parametrize("role", ["log", "view"])
def test_before_the_first_batch_only_the_view_must_be_empty(tables: Tables, role: str) -> None:
    """A reset empties the view that the job had last; one that it had before would keep rows that count as newer."""

    def start() -> None:
        require_no_discarded_rows(
            replace(RECORD, epoch=1),
            {role: tables.now()[role]},
            [str(tables.paths[role])],
            lambda path: bool(DeltaTable(path).to_pyarrow_table().num_rows),
            is_new=True,
        )

    if role == "log":
        start()
        return
    with pytest.raises(SinkError, match=r"the view \S+/view has rows .* when it was reset: .* remove them by a DELETE"):
        start()
    DeltaTable(str(tables.paths[role])).delete()
    start()


@pytest.mark.parametrize("joined", [None, 1], ids=["by a restore to a later savepoint", "by a start after that"])
def test_a_table_that_went_back_once_has_not_gone_back_with_every_restore(tables: Tables, joined: int | None) -> None:
    """It was fenced by a restore, a rescaling or a reset in between; the last restore is to one from before it."""
    log, view = (str(tables.paths[role]) for role in ("log", "view"))
    LibraryTable(view).note({RECORD.transaction("view"): FENCED})
    if joined is not None:
        LibraryTable(view).note({RECORD.joined("view"): joined})
        require_not_discarded(tables, written=[log], epoch=1)
    with pytest.raises(SinkError, match=r"the view \S+/view has rows of job 'readings' from before a restore"):
        require_not_discarded(tables, written=[log], epoch=2)


def test_a_table_that_has_joined_since_the_restore_is_not_refused(tables: Tables) -> None:
    """A start lets it refuse the epochs before, also where nothing was ever written to it in them."""
    tables.make_again("view")
    view = str(tables.paths["view"])
    LibraryTable(view).note({RECORD.transaction("view"): FENCED, replace(RECORD, epoch=1).joined("view"): 1})
    LibraryTable(view).append(log_rows("a"), replace(RECORD, epoch=1).transaction("view"), 5)
    require_not_discarded(tables, written=[str(tables.paths["log"])])
    with pytest.raises(SinkError, match="Choose another folder"):
        require_not_discarded(tables, written=[str(tables.paths["log"])], epoch=2)
