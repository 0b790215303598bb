"""Of two jobs that start on the same tables before either has written a row, one is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from deltalake import DeltaTable

from panekeeper.framework.declarations.errors import SinkError
from panekeeper.framework.engine.sink import delta_tables
from panekeeper.framework.engine.sink.delta_tables import DeltaTables
from panekeeper.framework.engine.sink.fencing import own, secure
from panekeeper.framework.engine.sink.library_rules import UnsupportedTable
from panekeeper.framework.engine.sink.library_table import LibraryTable
from panekeeper.state.checkpoint.job_record import JobRecord
from tests.framework.engine.sink.test_library_table import LOG, log_rows, make

OWNER = "panekeeper/owner"


def test_the_first_owner_of_a_table_keeps_it(tmp_path: Path) -> None:
    """A second one gets the number of the first, and commits nothing; a repeat commits nothing either."""
    path = make(tmp_path / "log", LOG)
    assert LibraryTable(path).own(OWNER, 7, take=False) == 7
    version = DeltaTable(path).version()
    assert LibraryTable(path).own(OWNER, 8, take=False) == 7
    assert LibraryTable(path).own(OWNER, 7, take=False) == 7
    assert DeltaTable(path).version() == version


def test_of_two_owners_at_the_same_time_one_wins(tmp_path: Path) -> None:
    """Both have read a table without an owner: the log of the table refuses the second commit."""
    path = make(tmp_path / "log", LOG)
    opened = [LibraryTable(path) for _ in range(4)]
    gate = Barrier(len(opened))

    def own(number: int) -> int:
        gate.wait()
        return opened[number].own(OWNER, number, take=False)

    with ThreadPoolExecutor(len(opened)) as pool:
        found = set(pool.map(own, range(len(opened))))
    assert len(found) == 1


def test_a_restored_table_gets_its_new_owner(tmp_path: Path) -> None:
    """Whatever the number of the old one; the rows stay, and commits go on."""
    path = make(tmp_path / "log", LOG)
    commits = LibraryTable(path)
    commits.own(OWNER, 7, take=False)
    commits.append(log_rows("a"), "job", 0)
    assert commits.own(OWNER, 3, take=True) == 3
    assert commits.append(log_rows("b"), "job", 1)
    assert LibraryTable(path).own(OWNER, 7, take=False) == 3
    assert DeltaTable(path).to_pyarrow_table().num_rows == 2


@pytest.mark.parametrize("id_", ["000000000000", "ffffffffffff"])
def test_every_id_of_a_checkpoint_is_a_version(tmp_path: Path, id_: str) -> None:
    """Twelve hexadecimal digits."""
    path = make(tmp_path / "log", LOG)
    assert LibraryTable(path).own(OWNER, int(id_, 16), take=False) == int(id_, 16)
    assert LibraryTable(path).own(OWNER, 1, take=False) == int(id_, 16)


def test_a_second_checkpoint_on_a_table_is_refused(tmp_path: Path) -> None:
    """It is named, with what to do; a table that several jobs may share is not looked at, nor one that is not there."""
    tables = {"log": make(tmp_path / "log", LOG), "quarantine": make(tmp_path / "bad", LOG), "view": None}
    first = JobRecord(name="first", id="0123456789ab", declaration={}, group_ids=(0,), versions={})
    second = replace(first, name="second", id="ba9876543210")
    no_spark: Any = None
    own(no_spark, tables, first)
    own(no_spark, tables, replace(first, epoch=3))
    with pytest.raises(SinkError, match=r"the table .*/log belongs to another checkpoint \(id 0123456789ab\)"):
        own(no_spark, tables, second)
    own(no_spark, tables, second, take=True)
    own(no_spark, tables, second)
    assert DeltaTable(tmp_path / "bad").version() == 0


def test_a_checkpoint_takes_tables_of_one_whose_place_it_has_taken(tmp_path: Path) -> None:
    """The job had another table when its savepoint was made, and declares this one again after a restore elsewhere."""
    tables = {"log": make(tmp_path / "log", LOG)}
    first = JobRecord(name="first", id="0123456789ab", declaration={}, group_ids=(0,), versions={})
    restored = replace(first, id="ba9876543210", former={"0123456789ab": 2})
    no_spark: Any = None
    own(no_spark, tables, first)
    own(no_spark, tables, restored)
    with pytest.raises(SinkError, match=r"belongs to another checkpoint \(id ba9876543210\)"):
        own(no_spark, tables, first)


def test_a_table_on_s3_that_only_spark_writes_belongs_to_one_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for credentials that the library does not take. Spark's commit there takes no condition."""
    tables = {"quarantine": make(tmp_path / "bad", LOG)}
    first = JobRecord(name="first", id="0123456789ab", declaration={}, group_ids=(0,), versions={})
    no_spark: Any = None
    monkeypatch.setattr(DeltaTables, "is_only_for_spark", lambda *_: True)
    own(no_spark, tables, first)
    with pytest.raises(SinkError, match=r"the table .*/bad belongs to another checkpoint \(id 0123456789ab\)"):
        own(no_spark, tables, replace(first, name="second", id="ba9876543210"))


def test_which_tables_only_spark_writes_is_found_by_their_place_and_credentials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One on a local disk is committed to with a condition by either."""

    def refuse(*_: object) -> dict[str, str]:
        raise UnsupportedTable("the credentials on S3 come from WebIdentityTokenCredentialsProvider")

    monkeypatch.setattr(delta_tables, "_options", refuse)
    no_spark: Any = None
    assert DeltaTables().is_only_for_spark(no_spark, "s3a://bucket/bad")
    assert not DeltaTables().is_only_for_spark(no_spark, make(tmp_path / "bad", LOG))


def test_a_settlement_of_an_earlier_epoch_is_refused(tmp_path: Path) -> None:
    """One that was paused while its job was restored writes nothing; that of the epoch goes on."""
    path = make(tmp_path / "log", LOG)
    no_spark: Any = None
    before = JobRecord(name="first", id="0123456789ab", declaration={}, group_ids=(0,), versions={})
    paused = LibraryTable(path)
    assert paused.append(log_rows("a"), before.settlement, 0)
    now = replace(before, epoch=1)
    secure(no_spark, {"log": path}, now, DeltaTables())
    with pytest.raises(SinkError, match="a later epoch of the job has begun"):
        LibraryTable(path).append(log_rows("b"), before.settlement, 1)
    assert LibraryTable(path).append(log_rows("c"), now.settlement, 0)
