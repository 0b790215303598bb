"""What the record of the last batch says of the tables: newer than what a killed job has left with its lease."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.job.tables.table_record import with_last_batch
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.prepared import PreparedBatch, TableWrite, last_prepared, prepare
from tests.framework.engine.job.test_table_record import RECORD, Tables, written_tables


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Those of a job that has committed five batches."""
    return written_tables(tmp_path)


def recorded_batch(number: int, known: Mapping[str, Any], *roles: str) -> PreparedBatch:
    """The record of a batch with rows for some of the tables."""
    writes = [TableWrite(role=one, path=one, table="", transaction="", after=-1, rows="results") for one in roles]
    return PreparedBatch(number=number, epoch=0, spark_commit="v2\n{}", writes=writes, tables=known)


def test_a_table_must_have_what_it_had_when_the_last_batch_was_recorded(tables: Tables, tmp_path: Path) -> None:
    """Of a commit since the last heartbeat nothing else says that it was there, if the last batch has no row for it."""
    folder, heartbeat = LocalFolder(tmp_path / "checkpoint"), tables.recorded
    put_back = tables.copy("log")
    tables.commit(5, "log")
    prepare(folder, recorded_batch(6, tables.recorded or {}, "view"))
    tables.commit(6, "view")
    for stored in (heartbeat, None):
        found = with_last_batch(stored, last_prepared(folder, RECORD, 6)) or {}
        assert {role: one["batch"] for role, one in found.items()} == {"log": 5, "view": 6}
    put_back()
    tables.recorded = dict(with_last_batch(heartbeat, last_prepared(folder, RECORD, 6)) or {})
    with pytest.raises(SinkError, match="batch 3 is the newest that it has of this job, and batch 5"):
        tables.start()


def test_a_table_that_was_put_in_the_place_of_another_one_counts_as_it_is_known_since(
    tables: Tables, tmp_path: Path
) -> None:
    """A start has found it, and may have died before it ran a batch. An earlier version has recorded none of it."""
    folder = LocalFolder(tmp_path / "checkpoint")
    since = {"log": (tables.recorded or {})["log"] | {"id": "other", "batch": -1}}
    prepare(folder, recorded_batch(6, tables.recorded or {}, "log"))
    assert with_last_batch(since, last_prepared(folder, RECORD, 6)) == since
    prepare(folder, recorded_batch(7, {}, "log"))
    assert with_last_batch(since, last_prepared(folder, RECORD, 7)) is since
    assert with_last_batch(since, last_prepared(folder, RECORD, None)) is since
