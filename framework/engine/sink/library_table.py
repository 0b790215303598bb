"""One Delta table by the library `deltalake`: a few rows in some 10 ms, without a Spark job, once.

Spark needs some 600 ms for a commit of a hundred rows. Why this library, when not, and what it does not do:
docs/decisions/0014-small-commits.md. Which tables it may write: `framework/engine/sink/library_rules.py`.

Each commit carries a transaction id and a version, and is refused or skipped if the table has that version already:
so it may be repeated, also by Spark, and by another process. The version is read from the table's log when the table
is opened, and not before each commit. What other processes commit in between is found by the library when it
commits: it compares the transaction ids of every commit that it has not seen with ours, and refuses.

A table may be replaced while it is open: by an older copy, or by another table (A6). The library lists the log from the
version that it knows, finds none, and refuses. So each attempt after the first, and each later opening, compares what
is there now with what this process has seen, and an attempt that succeeds pays nothing for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property, partial
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import ColumnProperties, CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from panekeeper.framework.declarations.errors import OutputNotWritable, SchemaMismatch, SinkError
from panekeeper.framework.engine.sink.delta_log import commit_file
from panekeeper.framework.engine.sink.library_rules import (
    NO_HOOKS,
    UnsupportedTable,
    files_of,
    local_folder,
    open_table,
    panic_as_unsupported,
    table_of,
    table_url,
    text_of,
)
from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
from panekeeper.state.codec import with_columns
from panekeeper.state.log import logger

REPLACED = "_pk_replaced"
"""Column of merged rows that are to be removed from the table, where it is true; no column of the table."""
FENCED = 2**62
"""Transaction version of an id under which nothing may be committed any more; no batch has such a number."""
PAUSES_S = (0.05, 0.2, 0.5, 1.0, 2.0)
"""How long to wait for another writer before each further attempt."""
_COMMITS_AN_OPEN = 50  # a table kept open takes longer with each commit: 8 ms at first, 25 after a hundred
_STATS_ARE_WHOLE_MS = pa.scalar(1000, pa.duration("us"))
_READ_DURATION = re.compile(r"interval \d+ (second|minute|hour|day|week)s?")
_FAR_DAYS = 73_000_000  # some 200,000 years
_NEAR_TIMES = tuple(pa.scalar(datetime(year, 1, 1, tzinfo=UTC), pa.timestamp("us", tz="UTC")) for year in (1901, 2262))
_NEAR_DAYS = (pa.scalar(date(1583, 1, 1), pa.date32()), pa.scalar(date(9999, 12, 31), pa.date32()))
_CALENDAR = b"org.apache.spark.legacyDateTime"
"""A key in the footer of files with days or times of the Julian calendar."""
_EXACT_DIGITS = 15  # a decimal of so many digits is the same one after it was a double
_REFUSED = "Delta table is append-only"
"""What the library says of a table that refuses a commit, by the class of error that it has for conflicts, too."""
_log = logger("sink")


class LibraryTable:
    """Commits to one table, which stays open between them. Used by one thread at a time.

    Every method raises `UnsupportedTable` if the library cannot write the table (any more), and `SinkError` if the
    epoch under which it commits was fenced off, others came first at each attempt, or the table cannot be written.
    """

    def __init__(
        self, path: str, options: Mapping[str, str] | None = None, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._url, self._folder = table_url(path), local_folder(path)
        self._options, self._sleep = dict(options or {}), sleep
        self._readable: set[str] = set()
        self._seen: tuple[str, int] | None = None  # id and version
        self._batches: dict[str, int] = {}  # transaction id -> the newest version that it was seen to have
        self._open: _Snapshot | None = None
        self._snapshot()

    @property
    def newest(self) -> TableAtVersion:
        """The table as it was when it was opened, which it is anew after `reopen`."""
        return self._snapshot().table

    def last_transaction(self, app_id: str) -> int:
        """Return the last version under a transaction id when the table was opened, or since; -1 if there is none."""
        try:
            return self._snapshot().version_of(app_id)
        except DeltaError:  # the library reads old commits only now: they may be cleaned up since the table was opened
            self.reopen()
            return self._snapshot().version_of(app_id)

    def require_as_recorded(self, id_: str, app_id: str, after: int) -> None:
        """Refuse a table that was put in the place of the one with this id, also while that was open (A6).

        `after` is the newest version that it has of a transaction id; an empty id is not known.
        """
        if self._folder is not None and self._open is not None and not self._open.is_there(Path(self._folder)):
            self.reopen()  # before a file is written: the volume may not be mounted
        require_recorded(self._url, id_, self._snapshot().table.id, after, self._newest_batch(app_id))

    def row_count(self) -> int | None:
        """Return how many rows the table has, by the statistics of its files; None if they do not say."""
        files = pa.table(self._snapshot().delta.get_add_actions(flatten=True))
        if not files.num_rows:
            return 0
        if "num_records" not in files.column_names or files.column("num_records").null_count:
            return None
        return int(pc.sum(files.column("num_records")).as_py())

    def append(self, rows: pa.Table, app_id: str, version: int) -> bool:
        """Append rows, with the columns of the table in any order, once; return whether that was now."""
        append = partial(_Snapshot.append, rows=rows)
        return self._commit(f"batch {version}", partial(self._batch, app_id, version), append)

    def append_files(self, files: list[AddAction], app_id: str, version: int) -> bool:
        """Append the rows of files that are in its folder, once; as `append`."""
        commit = partial(_Snapshot.commit_files, files=files)
        return self._commit(f"batch {version}", partial(self._batch, app_id, version), commit)

    def merge(
        self, rows: pa.Table, app_id: str, version: int, *, keys: Sequence[str], newer_by: str, since: str | None = None
    ) -> bool:
        """Insert rows whose keys the table does not have, and replace a row that is older than the given one. Once.

        If all rows are older, the transaction alone is committed: a start looks for it (A6). Rows with `REPLACED` are
        removed from the table, in the same commit. Null is a key like any
        other. Rows that begin after everything in the table are new by that alone, and are appended: see
        docs/decisions/0014-small-commits.md.

        Args:
            rows: with the columns of the table; no two have the same keys.
            app_id: the transaction id.
            version: the transaction version: rises from commit to commit.
            keys: columns by which rows differ; none if the table holds one row. Floating-point numbers are
                refused: 0.0 and NaN have several forms, which Spark takes for equal and the library does not.
            newer_by: a row replaces one in the table unless its value here is less; null is not less than any.
            since: a key of type timestamp that mostly rises, if there is one: files that end before are not read.

        Returns:
            Whether anything was committed now; False if the table had this version.
        """
        for key in keys:
            if pa.types.is_floating(rows.schema.field(key).type):
                raise UnsupportedTable(f"its key {key!r} is a floating-point number")
        merge = partial(_Snapshot.merge, rows=rows, keys=keys, newer_by=newer_by, since=since)
        return self._commit(f"batch {version}", partial(self._batch, app_id, version), merge)

    def note(self, transactions: Mapping[str, int]) -> bool:
        """Commit transactions without rows, those of which the table lacks that version; return whether it lacked any.

        With version `FENCED`, nobody can commit under an id any more: not a process that was paused, nor Spark. A
        library commit under it raises `SinkError`; Spark skips its write silently.
        """

        def missing() -> list[Transaction]:
            return [
                Transaction(app_id, to) for app_id, to in transactions.items() if self.last_transaction(app_id) < to
            ]

        return self._commit("a note", missing, partial(_Snapshot.commit_files, files=[]))

    def own(self, app_id: str, version: int, *, take: bool) -> int:
        """Commit a version, which stands for an owner, unless the table has one or `take`; return what it has then."""

        def missing() -> list[Transaction]:
            done = self.last_transaction(app_id)
            return [] if done == version or (done >= 0 and not take) else [Transaction(app_id, version)]

        self._commit("its owner", missing, partial(_Snapshot.commit_files, files=[]))
        return self.last_transaction(app_id)

    def reopen(self) -> None:
        """Open the table again for the next commit. To be called when the same job has committed to it by Spark."""
        if self._open is not None:
            self._seen = (self._open.table.id, self._open.version)
        self._open = None

    def _batch(self, app_id: str, version: int) -> list[Transaction]:
        """Return the transaction of a batch, if the table lacks it. Raises `SinkError` if its epoch is over."""
        done = self._newest_batch(app_id)
        require_not_fenced(self._url, version, done)
        return [] if done >= version else [Transaction(app_id, version)]

    def _commit(self, what: str, missing: Callable[[], list[Transaction]], act: Callable[..., None]) -> bool:
        """Commit under the transactions that the table lacks; return whether there were any.

        `act` is a method of the snapshot to which it commits, with its arguments but for `once`, these transactions.
        Both are called again where others came first.
        """
        for pause in (*PAUSES_S, None):
            transactions, table = missing(), self._snapshot()
            if not transactions:
                return False
            try:
                with panic_as_unsupported():
                    act(table, once=CommitProperties(app_transactions=transactions))
            except (DeltaError, OSError) as error:
                self.reopen()  # whoever was first may have committed these very versions: the log is read again
                if _REFUSED in text_of(error):
                    raise UnsupportedTable(f"it refuses the commit: {text_of(error)}") from error  # Spark says it whole
                others_came_first = isinstance(error, CommitFailedError) or self._snapshot().version != table.version
                if pause is None or not others_came_first:
                    raise self._not_committed(what, error) from error
                self._sleep(pause)
            except BaseException:
                self.reopen()
                raise
            else:
                table.committed(transactions)
                self._batches |= {transaction.app_id: transaction.version for transaction in transactions}
                if table.is_checkpoint_due:
                    self._write_checkpoint(table)
                if table.is_stale or table.is_checkpoint_due:
                    self.reopen()
                return True
        raise AssertionError

    def _not_committed(self, what: str, error: Exception) -> SinkError:
        if isinstance(error, CommitFailedError):
            return SinkError(
                f"{self._url}: {what} is not committed, because other writers came first at each of "
                f"{len(PAUSES_S) + 1} attempts ({text_of(error)}). Start the job again when they have ended: it "
                "resumes with the same batch"
            )
        return OutputNotWritable(
            f"{self._url} cannot be written, and lacks {what}: {text_of(error)}. Make it writable, with room on its "
            "disk, and start the job again: it resumes with the same batch"
        )

    def _newest_batch(self, app_id: str) -> int:
        """Return the newest batch under a transaction id; refuse a table that had a newer one when it was seen last."""
        done, seen = self.last_transaction(app_id), self._batches.get(app_id, -1)
        if done < seen:
            raise _older_copy(self._url, f"batch {done} is its newest of this job, and batch {seen}")
        self._batches[app_id] = done
        return done

    def _snapshot(self) -> _Snapshot:
        if self._open is None:
            snapshot = _Snapshot(self._url, self._options, self._readable)
            if self._seen is not None:
                id_, version = self._seen
                require_recorded(self._url, id_, snapshot.table.id, -1, -1)
                if snapshot.version < version:
                    raise _older_copy(self._url, f"version {snapshot.version} is its newest, and version {version}")
            self._open = snapshot
        return self._open

    def _write_checkpoint(self, table: _Snapshot) -> None:
        """Write a checkpoint of the log, and remove old commits: an error here only costs time."""
        try:
            if self._folder is not None:  # Spark's checksum of the last one would make it take the new one for damaged
                Path(self._folder, "_delta_log", "._last_checkpoint.crc").unlink(missing_ok=True)
            table.write_checkpoint()
        except (DeltaError, OSError) as error:
            _log.warning("%s: no checkpoint of the Delta log was written: %s", self._url, error)


def require_recorded(path: str, id_: str, id_now: str, after: int, batch: int) -> None:
    """Refuse a table with another id than `id_`, or without a batch that was written to it: an older copy (A6)."""
    if id_ and id_now != id_:
        raise SinkError(
            f"the table {path} was replaced while the job ran: its id is {id_now}, not {id_}. Put the table back that "
            "the job has written to, and start the job again; or restore a savepoint"
        )
    if batch < after:
        raise _older_copy(path, f"batch {batch} is its newest of this job, and batch {after}")


def _older_copy(path: str, what: str) -> SinkError:
    return SinkError(
        f"the table {path} was replaced by an older copy while the job ran: {what} was written to it. Put its newest "
        "state back and start the job again; or restore a savepoint"
    )


def require_not_fenced(path: str, batch: int, newest: int) -> None:
    """Refuse to commit a batch of an epoch that is over: `newest` is what the table has under its transaction id."""
    if newest >= FENCED:
        raise SinkError(
            f"{path}: batch {batch} is not committed, because a later epoch of the job has begun (a restore or a reset "
            "to the initial state) while this process was paused. End this process; the job that was started last goes "
            "on"
        )


class _Snapshot:
    """A table as it was when it was opened (`table`), and what was committed to it since.

    `readable` are names of files that were found to be readable when it was open before.
    """

    def __init__(self, url: str, options: dict[str, str], readable: set[str]) -> None:
        self.delta = open_table(url, options)
        self.table = table_of(self.delta, url)
        self._schema = pa.schema(self.delta.schema().to_arrow())
        self._known: dict[str, int] = {}
        self._ends: dict[str | None, pa.Scalar | None] = {}
        self._commits = 0
        self._others_may_have_written, self._readable = True, readable

    def is_there(self, folder: Path) -> bool:
        """Return whether the newest commit that is known here is in the table's folder still."""
        return (folder / commit_file(self.version)).exists()

    def version_of(self, app_id: str) -> int:
        """Return the last transaction version under an id; -1 if there is none."""
        if app_id not in self._known:
            self._known[app_id] = self.table.last_transaction(app_id)
        return self._known[app_id]

    def committed(self, transactions: list[Transaction]) -> None:
        """Take note of a commit."""
        self._known |= {transaction.app_id: transaction.version for transaction in transactions}
        self._commits += 1

    @property
    def version(self) -> int:
        """The version of the table that is known here."""
        return int(self.delta.version())

    @property
    def is_stale(self) -> bool:
        """Whether it should be opened again: another writer has committed, or commits begin to take long."""
        return self._commits >= _COMMITS_AN_OPEN or self.version != self.table.version + self._commits

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether Spark would write a checkpoint of the log after the commit that was made last."""
        return self.version % int(self.table.properties.get("delta.checkpointInterval", "10")) == 0

    def append(self, rows: pa.Table, once: CommitProperties) -> None:
        """Write a file and commit it, under the transaction in `once`. The rows are in the file in their order."""
        rows = self._aligned(rows)
        for field in self._schema:
            if field.name not in rows.column_names:  # rows of an earlier declaration lack what a start has added since
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        rows = rows.select(self._schema.names).combine_chunks()  # the library writes several chunks in any order
        write_deltalake(
            self.delta,
            rows,
            mode="append",
            writer_properties=_file_properties(self._schema, rows),
            commit_properties=once,
            post_commithook_properties=NO_HOOKS,
        )

    def merge(
        self, rows: pa.Table, once: CommitProperties, *, keys: Sequence[str], newer_by: str, since: str | None
    ) -> None:
        """Append rows that can have no older row in the table, and merge others, in one commit."""
        replaced = rows.column(REPLACED) if REPLACED in rows.column_names else None
        rows = self._aligned(rows.drop_columns([REPLACED] if replaced is not None else []))
        begin = None if since is None else lowest(rows, since)
        end = self._end(since)
        before = self.version
        if begin is not None and end is not None and begin.value > end.value:
            rows = rows if replaced is None else rows.filter(pc.invert(replaced))
            self.append(rows, once)
        else:
            same = [f"(t.{_quoted(key)} IS NOT DISTINCT FROM s.{_quoted(key)})" for key in keys]
            if since is not None and begin is not None:
                same.append(f"(t.{_quoted(since)} >= to_timestamp_micros({begin.value // 1000 * 1000}))")  # whole ms
            source = rows if replaced is None else rows.append_column(REPLACED, replaced)
            self._merge(source, once, " AND ".join(same or ["true"]), newer_by)
            if self.version == before:  # all rows are older
                self.commit_files([], once)
        if since is not None and end is not None and (greatest := pc.max(rows.column(since))).is_valid:
            self._ends[since] = max(end, greatest, key=lambda timestamp: timestamp.value)

    def commit_files(self, files: list[AddAction], once: CommitProperties) -> None:
        """Commit files that are in its folder, or none, under the transactions in `once`."""
        self.delta.create_write_transaction(
            [*files], "append", self.delta.schema(), commit_properties=once, post_commithook_properties=NO_HOOKS
        )

    def write_checkpoint(self) -> None:
        """Write a checkpoint of the log, and remove commits that need not be kept, if the table's owner permits that.

        For a duration that it cannot read, the library would take 30 days, without an error.
        """
        self.delta.create_checkpoint()
        is_wanted = self.table.properties.get("delta.enableExpiredLogCleanup", "true").lower() == "true"
        kept_for = self.table.properties.get("delta.logRetentionDuration", "interval 30 days")
        if is_wanted and _READ_DURATION.fullmatch(kept_for):
            self.delta.cleanup_metadata()

    def _merge(self, rows: pa.Table, once: CommitProperties, condition: str, newer_by: str) -> None:
        if self._others_may_have_written:  # by the log of the table as it was opened; since then the library writes
            _require_readable_times(self.delta, self._files, self._schema, self._readable)
            self._others_may_have_written = False
        every = {f"t.{_quoted(name)}": f"s.{_quoted(name)}" for name in rows.column_names if name != REPLACED}
        merge = self.delta.merge(
            rows,
            condition,
            source_alias="s",
            target_alias="t",
            writer_properties=_file_properties(self._schema),
            commit_properties=once,
            post_commithook_properties=NO_HOOKS,
        )
        is_newer = f"coalesce(s.{_quoted(newer_by)} >= t.{_quoted(newer_by)}, true)"
        if REPLACED not in rows.column_names:
            merge.when_matched_update(every, is_newer).when_not_matched_insert(every).execute()
            return
        merge.when_matched_delete(f"s.{_quoted(REPLACED)}")
        merge.when_matched_update(every, f"NOT s.{_quoted(REPLACED)} AND {is_newer}")
        merge.when_not_matched_insert(every, f"NOT s.{_quoted(REPLACED)}").execute()

    def _end(self, column: str | None) -> pa.Scalar | None:
        """Return up to where the table reaches in a column, by the statistics of its files; None if they do not say."""
        if column not in self._ends:
            files = self._files  # of any column: some may not be in its folder
            self._ends[column] = None if column is None else _end_of(files, column)
        return self._ends[column]

    @cached_property
    def _files(self) -> pa.Table:
        """The files as they were at the first merge after the table was opened. An append needs no such list."""
        return files_of(self.delta)

    def _aligned(self, rows: pa.Table) -> pa.Table:
        if not set(rows.column_names) <= set(self._schema.names):
            raise SchemaMismatch(
                f"the Delta table has other columns now ({', '.join(self._schema.names)}) than the results "
                f"({', '.join(rows.column_names)}): they were changed while the job ran. Change them back, and start "
                "the job again: it resumes with the same batch"
            )
        return with_columns(rows, pa.schema([field for field in self._schema if field.name in rows.column_names]))


def _require_readable_times(delta: DeltaTable, files: pa.Table, schema: pa.Schema, readable: set[str]) -> None:
    """Raise `UnsupportedTable` if a file may hold a time that the library reads as another one (A5).

    An OPTIMIZE by others writes timestamps as INT96, which the library reads as nanoseconds since 1970 in 64 bits; with
    `datetimeRebaseModeInWrite=LEGACY` it writes days before 1582, and times before 1900, of the Julian calendar. Files
    whose statistics show no such time are readable; of the others the footer says how they were written. The names of
    files that are found to be readable are added to `readable`.
    """
    times = [field for field in schema if _has_time(field.type)]
    if not times or not files.num_rows:
        return
    every = pa.array([True] * files.num_rows)
    for field in times:
        every = pc.and_(every, _is_near(files, field))
    unknown = {unquote(name) for name in files.column("path").filter(pc.invert(every)).to_pylist()} - readable
    if not unknown:
        return
    for fragment in delta.to_pyarrow_dataset().get_fragments():
        name = unquote(fragment.path)
        if name not in unknown:
            continue
        columns = fragment.metadata.schema
        is_int96 = any(columns.column(number).physical_type == "INT96" for number in range(len(columns)))
        if is_int96 or _CALENDAR in (fragment.metadata.metadata or {}):
            raise UnsupportedTable(f"{name} may hold times that the library misreads: INT96, or another calendar")
        readable.add(name)


def _is_near(files: pa.Table, field: pa.Field) -> pa.Array:
    """Return for each file whether all its values of a column are known to be within the years."""
    low, high, nulls = (f"{what}.{field.name}" for what in ("min", "max", "null_count"))
    if pa.types.is_nested(field.type) or not {low, high, "num_records"} <= {*files.column_names}:
        return pa.array([False] * files.num_rows)
    first, end = _NEAR_DAYS if pa.types.is_date(field.type) else _NEAR_TIMES
    least, greatest = (files.column(name).cast(first.type).combine_chunks() for name in (low, high))
    near = pc.fill_null(pc.and_(pc.greater_equal(least, first), pc.less(greatest, end)), False)
    if nulls not in files.column_names:
        return near
    only_nulls = pc.fill_null(pc.equal(files.column(nulls), files.column("num_records")), False)
    return pc.or_(near, only_nulls.combine_chunks())


def _has_time(kind: pa.DataType) -> bool:
    """Return whether a type is one of days or of timestamps with a zone, or has some within: no others are changed."""
    if pa.types.is_nested(kind):
        return any(_has_time(kind.field(number).type) for number in range(kind.num_fields))
    return bool(pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None))


def lowest(rows: pa.Table, column: str) -> pa.Scalar | None:
    """Return the least value of a column; None if there is none, or if a null says that not all are known."""
    if rows.column(column).null_count or not rows.num_rows:
        return None
    return pc.min(rows.column(column))


def _end_of(files: pa.Table, column: str) -> pa.Scalar | None:
    """Return the greatest value in any file; None if that is not known, the least of all times if there is no file."""
    if not files.num_rows:
        return pa.scalar(-(2**63), pa.timestamp("us", tz="UTC"))
    name = f"max.{column}"
    if name not in files.column_names or files.column(name).null_count:
        return None
    # Spark's statistics are of whole milliseconds, cut off.
    return pc.add(pc.max(files.column(name)).cast(pa.timestamp("us", tz="UTC")), _STATS_ARE_WHOLE_MS)


def _file_properties(schema: pa.Schema, rows: pa.Table | None = None) -> WriterProperties:
    """Return how a file is written: with the limits of those columns only by which a query may skip it.

    The library writes the least and the greatest value of a decimal as a double, or as the nearest 64-bit integer, and
    those of floats without NaN, which for Spark is greater than every number. By them a query for such a value would
    skip the file, and not find the row. `rows` are None if they are not known, as of a file that a merge replaces.
    """
    exact = [field.name for field in schema if _has_exact_limits(field, rows)]
    return WriterProperties(
        compression="SNAPPY",
        # Fields of a struct cannot be named here: they have no limits.
        default_column_properties=ColumnProperties(statistics_enabled="NONE"),
        column_properties={name: ColumnProperties(statistics_enabled="PAGE") for name in exact},
    )


def _has_exact_limits(field: pa.Field, rows: pa.Table | None) -> bool:
    kind = field.type
    if pa.types.is_decimal(kind):
        return bool(kind.precision <= _EXACT_DIGITS)
    if pa.types.is_date(kind) and rows is not None and rows.num_rows:
        # The library panics over years beyond some 262,000 where it writes the limits.
        limits = pc.min_max(rows.column(field.name).cast(pa.int32())).as_py()
        return all(limit is None or abs(limit) < _FAR_DAYS for limit in limits.values())
    if pa.types.is_floating(kind):
        return rows is not None and not pc.any(pc.is_nan(rows.column(field.name))).as_py()
    return not pa.types.is_nested(kind)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
