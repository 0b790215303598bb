"""What a restore or a reset has discarded is discarded once: in all tables, and not again later."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from deltalake import DeltaTable

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.job.table_checks import require_no_discarded_rows
from panekeeper.framework.engine.sink.library_table import FENCED, LibraryTable
from tests.framework.engine.job.test_table_record import RECORD, Tables, last_transaction, tables
from tests.framework.engine.sink.test_library_table import log_rows

__all__ = ["tables"]


def require_not_discarded(tables: Tables, *, written: Collection[str], epoch: int = 1, **fields: Any) -> None:
    """Check the tables as a start does in a later epoch, with a checkpoint that names some of them."""

    def has_rows(path: str) -> bool:
        return bool(DeltaTable(path).to_pyarrow_table().num_rows)

    record = replace(RECORD, epoch=epoch, **fields)
    require_no_discarded_rows(record, tables.paths, written, last_transaction, has_rows)


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
        paths = {role: tables.paths[role], "quarantine": None}
        require_no_discarded_rows(
            replace(RECORD, epoch=1),
            paths,
            [str(paths[role])],
            last_transaction,
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
