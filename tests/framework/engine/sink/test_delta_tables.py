"""Which of a job's tables are written by the library and which by Spark, found out once a run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeVar, cast

import pyarrow as pa
import pytest
from delta.exceptions import ConcurrentAppendException
from deltalake import DeltaTable

from panekeeper.framework.declarations.errors import OutputNotWritable, SinkError
from panekeeper.framework.engine.sink import spark_table
from panekeeper.framework.engine.sink.delta_tables import DeltaTables
from panekeeper.framework.engine.sink.library_rules import (
    UnreachableTable,
    UnsupportedTable,
    create_table,
    table_of,
)
from panekeeper.framework.engine.sink.library_table import FENCED, LibraryTable
from panekeeper.state.checkpoint.job_record import OWNER
from panekeeper.state.prepared import TableWrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NO_SPARK = cast("SparkSession", None)  # needed for tables on S3 only
SPARK = cast(
    "SparkSession", SimpleNamespace(createDataFrame=lambda *_: SimpleNamespace(coalesce=lambda _: None))
)  # reaches no table
SCHEMA = pa.schema([("sensor", pa.string())])
ROWS = pa.table({"sensor": ["a"]}, schema=SCHEMA)
T = TypeVar("T")


def by_library(tables: DeltaTables, path: str, act: Callable[[LibraryTable], T]) -> T | None:
    """Return what the library does with a table; None: it is left to Spark."""
    with tables.library(NO_SPARK, path) as table:
        if table is not None:
            return act(table)
    return None


def test_a_table_that_the_library_writes_stays_open(tmp_path: Path) -> None:
    """Also where Spark commits to it in between; then it is read again."""
    DeltaTable.create(tmp_path, schema=SCHEMA)
    tables = DeltaTables()
    opened: list[LibraryTable] = []
    done: list[bool] = []

    def append(to: LibraryTable) -> bool:
        opened.append(to)
        done.append(to.append(ROWS, "a", len(done)))
        return done[-1]

    for _ in range(3):
        assert by_library(tables, str(tmp_path), append)
        tables.reopen(str(tmp_path))
    assert done == [True, True, True]
    assert opened[0] is opened[1] is opened[2]


def test_a_table_that_the_library_writes_is_read_without_spark(tmp_path: Path) -> None:
    """As it is now, also when another program has committed to it since it was read last."""
    DeltaTable.create(tmp_path, schema=SCHEMA)
    tables, path = DeltaTables(), str(tmp_path)
    assert spark_table.is_delta_table(NO_SPARK, path)
    assert not spark_table.is_delta_table(NO_SPARK, str(tmp_path.parent / "none"))
    first = tables.read(NO_SPARK, path)
    assert (first, first.last_transaction("a")) == (table_of(DeltaTable(path), path), -1)
    LibraryTable(path).append(ROWS, "a", 7)
    second = tables.read(NO_SPARK, path)
    assert (second.id, second.version, second.last_transaction("a")) == (first.id, first.version + 1, 7)


def test_a_table_that_does_not_is_left_to_spark_for_the_rest_of_the_run(tmp_path: Path) -> None:
    """Whether that is seen when it is opened or by what shall be committed; it is not tried again."""
    table = tmp_path / "table"
    DeltaTable.create(table, schema=SCHEMA)
    tables = DeltaTables()

    def refuse(to: LibraryTable) -> bool:
        raise UnsupportedTable(f"{to} cannot")

    for path in (str(tmp_path / "none"), str(table), "hdfs://host/table"):
        assert by_library(tables, path, refuse) is None
        assert by_library(tables, path, lambda to: to.append(ROWS, "a", 0)) is None
        tables.reopen(path)
    assert DeltaTable(table).version() == 0


def test_a_table_whose_store_is_away_is_written_by_the_library_again_when_it_is_back(tmp_path: Path) -> None:
    """By the same object, which knows its last commit. Who must not let Spark commit meanwhile, learns of it."""
    DeltaTable.create(tmp_path, schema=SCHEMA)
    tables, path, opened = DeltaTables(), str(tmp_path), list[LibraryTable]()

    def commit(to: LibraryTable) -> bool:
        opened.append(to)
        if len(opened) == 1:
            raise UnreachableTable("after 10 retries")
        return to.append(ROWS, "a", 0)

    assert by_library(tables, path, commit) is None
    assert tables._refused == {path: "after 10 retries"}
    assert by_library(tables, path, commit)
    assert not tables._refused
    assert opened[0] is opened[1]


@pytest.mark.parametrize("role", ["quarantine", "downtime"])
def test_spark_does_not_commit_to_a_table_that_jobs_may_share_while_its_store_is_away(role: str) -> None:
    """On S3: it may take the place of a commit of another job. A log has no other writer, nor a table that is owned."""

    class Away(LibraryTable):
        def __init__(self) -> None:
            """Nothing is opened."""

        def require_as_recorded(self, id_: str, app_id: str, after: int) -> None:
            """Nothing is read."""

        def append(self, rows: pa.Table, app_id: str, version: int) -> bool:
            raise UnreachableTable(f"{rows.num_rows} row of {app_id}, batch {version}: after 10 retries")

        def last_transaction(self, app_id: str) -> int:
            return 0xA if app_id == OWNER else -1

    url = "s3a://bucket/table"
    tables = DeltaTables({url: Away()})
    write = TableWrite(role=role, path=url, table="", transaction="job", after=-1, rows="rows")
    with pytest.raises(OutputNotWritable, match="1 row of job, batch 3"):
        tables.append(NO_SPARK, ROWS, write, 3, job="b")
    for job, to in (("b", replace(write, role="log")), ("a", write)):
        with pytest.raises(SinkError, match="cannot be read"):  # by the session, which would commit
            tables.append(SPARK, ROWS, to, 3, job=job)


@pytest.mark.parametrize("name", ["a[1", "a]", "a^b", "a|b", "a%20b", "a\\b", "a\tb"])
def test_a_folder_that_the_library_would_not_reach_is_left_to_spark(tmp_path: Path, name: str) -> None:
    """It panics, or reads the log of another folder: with `%20` that of the one with a space, which has the batch."""
    other, own = tmp_path / name.replace("%20", " ").replace("\\", "/"), tmp_path / name
    other.mkdir(parents=True, exist_ok=True)
    DeltaTable.create(tmp_path / "table", schema=SCHEMA)
    (tmp_path / "table/_delta_log").rename(own / "_delta_log") if own.is_dir() else (tmp_path / "table").rename(own)
    before = sorted(tmp_path.rglob("*"))
    tables = DeltaTables()
    assert by_library(tables, str(own), lambda to: to.append(ROWS, "a", 0)) is None
    assert by_library(tables, str(own), lambda to: to.note({"a": FENCED})) is None
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["a#1/log", "a?/log", "a%20b", "a\tb", "a "])
def test_a_url_of_which_the_library_would_read_a_part_is_left_to_spark(name: str) -> None:
    """Two tables would be one, or that of somebody else. No store is reached."""
    with pytest.raises(UnsupportedTable, match="as Spark does"):
        create_table(f"s3a://bucket/{name}", {}, '{"type": "struct", "fields": []}', {})
    with pytest.raises(UnsupportedTable, match="as Spark does"):
        LibraryTable(f"s3a://bucket/{name}")


class PanicException(BaseException):
    """What a defect of the library raises; it is no `Exception` there either."""


def test_a_panic_of_the_library_leaves_the_table_to_spark(tmp_path: Path) -> None:
    """Spark commits the batch, or skips it if the library had got so far; nothing waits, and nothing ends silently."""
    DeltaTable.create(tmp_path, schema=SCHEMA)
    tables, calls = DeltaTables(), []

    def panic(_: LibraryTable) -> bool:
        calls.append(1)
        raise PanicException("index out of bounds")

    assert by_library(tables, str(tmp_path), panic) is None
    assert by_library(tables, str(tmp_path), panic) is None
    assert calls == [1]
    with pytest.raises(KeyboardInterrupt):
        by_library(DeltaTables(), str(tmp_path), _interrupt)


def _interrupt(_: LibraryTable) -> bool:
    raise KeyboardInterrupt


def _kept(table: Path, batches: int) -> tuple[LibraryTable, str]:
    """Write batches to a new table; return it, open, and its id."""
    made = DeltaTable.create(table, schema=SCHEMA)
    kept = LibraryTable(str(table))
    for batch in range(batches):
        assert kept.append(ROWS, "job", batch)
    return kept, str(made.metadata().id)


def test_an_older_copy_that_is_put_in_the_place_of_an_open_table_gets_no_batch(tmp_path: Path) -> None:
    """The library would go on by what it knows of the one that was there: batches between would be missing (A6).

    By its version, or, where others have committed to it as often, by its batches.
    """
    table = tmp_path / "table"
    kept, id_ = _kept(table, 2)
    shutil.copytree(table, tmp_path / "copy")
    assert kept.append(ROWS, "job", 2)
    kept.require_as_recorded(id_, "job", 2)
    shutil.rmtree(table)
    (tmp_path / "copy").rename(table)
    for why in ("version 2 is its newest, and version 3", "batch 1 is its newest of this job, and batch 2"):
        with pytest.raises(SinkError, match=rf"older copy while the job ran: {why} was written"):
            kept.require_as_recorded(id_, "job", 2)
        LibraryTable(str(table)).append(ROWS, "another program", 0)


def test_another_table_in_the_place_of_an_open_one_gets_no_batch(tmp_path: Path) -> None:
    """Its rows would be in one table, and those before in another (A6)."""
    table = tmp_path / "table"
    kept, id_ = _kept(table, 3)
    shutil.rmtree(table)
    _kept(table, 1)
    with pytest.raises(SinkError, match=rf"was replaced while the job ran: its id is \S+, not {id_}"):
        kept.require_as_recorded(id_, "job", 2)


class BySpark:
    """Rows that Spark would append to a table; others come first once, and `meanwhile` happens then."""

    def __init__(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.meanwhile, self.attempts, self.write = meanwhile, 0, self

    def format(self, _: str) -> BySpark:
        return self

    def mode(self, _: str) -> BySpark:
        return self

    def options(self, *, txnAppId: str, txnVersion: int) -> BySpark:  # noqa: N803 -- Delta's names
        self.transaction = (txnAppId, txnVersion)
        return self

    def save(self, path: str) -> None:
        self.attempts += 1
        if self.attempts == 1:
            self.meanwhile()
            raise ConcurrentAppendException("OPTIMIZE")
        assert LibraryTable(path).append(ROWS, *self.transaction)


@pytest.fixture
def _log_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark reads of the log of a table, read by the library; all other commits are Spark's."""
    monkeypatch.setattr(spark_table, "is_delta_table", lambda _, path: DeltaTable.is_deltatable(path))
    monkeypatch.setattr(spark_table, "read_table", lambda _, path: table_of(DeltaTable(path), path))


@pytest.mark.usefixtures("_log_without_java")
def test_a_table_that_is_replaced_between_two_attempts_of_spark_gets_no_batch(tmp_path: Path) -> None:
    """Each attempt looks at the table: an older copy, another table and a later epoch end it (A2, A6)."""
    path = tmp_path / "table"

    def copy_back() -> None:
        shutil.rmtree(path)
        (tmp_path / "copy").rename(path)

    def make_again() -> None:
        shutil.rmtree(path)
        _kept(path, 3)

    for meanwhile, why in (
        (copy_back, r"older copy while the job ran: batch 0 is its newest .* batch 1 was written"),
        (make_again, r"was replaced while the job ran: its id is"),
        (lambda: LibraryTable(str(path)).note({"job": FENCED}), r"batch 2 is not committed, because a later epoch"),
        (lambda: shutil.rmtree(path), r"the log \S+ is gone"),
    ):
        shutil.rmtree(path, ignore_errors=True)
        kept, id_ = _kept(path, 1)
        shutil.copytree(path, tmp_path / "copy", dirs_exist_ok=True)
        assert kept.append(ROWS, "job", 1)
        write = TableWrite(role="log", path=str(path), table=id_, transaction="job", after=1, rows="rows")
        rows = BySpark(meanwhile)
        with pytest.raises(SinkError, match=why):
            DeltaTables().append(NO_SPARK, cast("DataFrame", rows), write, 2, job="b")
        assert rows.attempts == 1
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)


@pytest.mark.usefixtures("_log_without_java")
def test_spark_commits_again_to_a_table_to_which_others_came_first(tmp_path: Path) -> None:
    """It is still the one that is recorded."""
    kept, id_ = _kept(tmp_path / "table", 2)
    write = TableWrite(role="log", path=kept._url, table=id_, transaction="job", after=1, rows="rows")
    rows = BySpark(lambda: kept.append(ROWS, "other", 0))
    DeltaTables().append(NO_SPARK, cast("DataFrame", rows), write, 2, job="b")
    assert DeltaTable(kept._url).transaction_version("job") == 2
