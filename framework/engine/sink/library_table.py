"""One Delta table by the library `deltalake`: may it write the table, how does it reach it, and what does it do there?

Only what is known to be written correctly passes. A feature, property or column attribute that is not listed here
stands for a rule that Spark's Delta applies on write and the library may not: such a table is written by Spark, and so
is one that is neither on a local disk nor on S3. A table is read once and written to as it then was; what is done about
repeats and conflicts is decided in `framework/engine/sink/small_commits.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from panekeeper.framework.declarations.errors import OutputNotWritable, SchemaMismatch, SinkError
from panekeeper.state.checkpoint.folder import local_path
from panekeeper.state.codec import with_columns

_FEATURES = frozenset({"appendOnly", "invariants", "timestampNtz"})
_PROPERTIES = frozenset(
    {
        "delta.appendOnly",
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.checkpointInterval",
        "delta.dataSkippingNumIndexedCols",
        "delta.deletedFileRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.logRetentionDuration",
        "delta.setTransactionRetentionDuration",
        "delta.targetFileSize",
        "delta.tuneFileSizesForRewrites",
    }
)
_TYPES = frozenset(
    "string long integer short byte float double boolean binary date timestamp timestamp_ntz".split()  # noqa: SIM905
)
_BY_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that Spark's Delta has in names of columns of tables with column mapping only."""
NEW_TABLE = {"delta.checkpointInterval": "100"}
"""The properties of tables of ours. Delta's default, a checkpoint of the log every 10 commits, nearly doubles the cost
of small batches."""
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")


class UnsupportedTable(Exception):
    """The library cannot be trusted to write this table; the message says why. Spark's Delta can write it."""


class UnreachableTable(UnsupportedTable):
    """The store of a table does not respond to the library just now; later it may."""


def require_protocol(reader: int, writer: int, features: Iterable[str]) -> None:
    """Raise `UnsupportedTable` unless the library implements everything that the protocol of a table demands.

    Args:
        reader: the table's minimum reader version.
        writer: its minimum writer version.
        features: its reader and writer features, if its versions are 3 and 7.
    """
    if (writer > 2 and writer != 7) or reader not in (1, 3):  # noqa: PLR2004 -- versions of Delta's protocol
        raise UnsupportedTable(
            f"its protocol has reader version {reader} and writer version {writer}: only 1 and 2, or single features "
            "(3 and 7), are written directly"
        )
    unknown = sorted(set(features) - _FEATURES)
    if unknown:
        raise UnsupportedTable(f"it has the table feature {unknown[0]!r}")


def require_metadata(schema: Mapping[str, Any], partition_by: Sequence[str], properties: Mapping[str, str]) -> None:
    """Raise `UnsupportedTable` unless the library writes these columns as Spark does.

    Args:
        schema: the table's schema, as its log has it.
        partition_by: the columns that Delta partitions the table by.
        properties: the table's properties.
    """
    if partition_by:
        raise UnsupportedTable(f"Delta partitions it by the column {partition_by[0]!r}")
    for name, value in properties.items():
        if name.startswith("delta.") and name not in _PROPERTIES and value not in ("false", "none"):
            raise UnsupportedTable(f"its property {name} is {value!r}")
    _require_fields(schema["fields"])


def require_new_table(schema: Mapping[str, Any], properties: Mapping[str, str]) -> None:
    """Raise `UnsupportedTable` unless Spark would create the table, too. The library refuses less than Spark.

    A table that Spark would not have created cannot be restored by it, and it may fail to write what it cannot read.

    Args:
        schema: the columns of the table.
        properties: its properties. The values of those that a user gives are checked by Spark.
    """
    require_metadata(schema, (), properties)
    for name, value in properties.items():
        if NEW_TABLE.get(name) != value:
            raise UnsupportedTable(f"its property {name} is for Spark to check")
    for name in _names(schema):
        if _BY_MAPPING.search(name):
            raise UnsupportedTable(f"its column {name!r} needs column mapping")


def schema_of(text: str) -> Mapping[str, Any]:
    """Return a schema from the JSON text of a table's log."""
    schema: Mapping[str, Any] = json.loads(text)
    return schema


def _require_fields(fields: Iterable[Mapping[str, Any]]) -> None:
    for field in fields:
        name = field["name"]
        attributes = sorted(set(field.get("metadata", {})) - {"comment"})
        if attributes:
            raise UnsupportedTable(f"its column {name!r} has the attribute {attributes[0]!r}")
        if not field.get("nullable", True):
            raise UnsupportedTable(f"its column {name!r} is NOT NULL")
        _require_type(name, field["type"])


def _names(kind: Any) -> Iterator[str]:
    """Yield the names of the columns of a table, and of the fields within them."""
    if isinstance(kind, str):
        return
    for field in kind.get("fields", ()):
        yield field["name"]
        yield from _names(field["type"])
    for part in ("elementType", "keyType", "valueType"):
        yield from _names(kind.get(part, ""))


def _require_type(name: str, kind: Any) -> None:
    if isinstance(kind, str):
        if kind not in _TYPES and not _DECIMAL.fullmatch(kind):
            raise UnsupportedTable(f"its column {name!r} is of type {kind}")
    elif kind["type"] == "struct":
        _require_fields(kind["fields"])
    elif kind["type"] == "array":
        _require_type(name, kind["elementType"])
    elif kind["type"] == "map":
        _require_type(name, kind["keyType"])
        _require_type(name, kind["valueType"])
    else:
        raise UnsupportedTable(f"its column {name!r} is of type {kind['type']}")


S3A_SETTINGS = (
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "connection.ssl.enabled",
    "access.key",
    "secret.key",
    "session.token",
    "aws.credentials.provider",
    "encryption.algorithm",
    "server-side-encryption-algorithm",
    "acl.default",
    "requester.pays.enabled",
)
"""Settings of Hadoop's `fs.s3a` that say where a store is, who we are there, and how files are stored."""

# Hadoop's own list. Keys and tokens in settings and in the environment are among `S3A_SETTINGS`: Spark copies them
# there; the role of a machine is found by the library, too.
_PROVIDERS = frozenset(
    {
        "TemporaryAWSCredentialsProvider",
        "SimpleAWSCredentialsProvider",
        "EnvironmentVariableCredentialsProvider",
        "IAMInstanceCredentialsProvider",
    }
)

_NOT_TEXT = re.compile(r"\x1b\[\d*m|\u21b3")  # colours and arrows in the library's errors
_LONGEST_REASON = 400
_AGAIN_AND_AGAIN = re.compile(r"after \d+ retries")
"""Of the library's errors: a store that is away, or overloaded. What it refuses is not tried again."""
_MISREAD = re.compile(r"[\x00-\x1f\x7f%\[\\\]^|]")
_ENDS_A_URL = re.compile(r"[#?]|\s$")


def not_opened(error: Exception) -> UnsupportedTable:
    """Return why the library does not open a table: it cannot read it, or the store did not respond to any attempt."""
    why = _one_line(error)
    is_away = _AGAIN_AND_AGAIN.search(why) is not None and "certificate" not in why.lower()
    return (UnreachableTable if is_away else UnsupportedTable)(f"the library cannot open it: {why}")


def not_committed(url: str, version: int, error: Exception, attempts: int) -> SinkError:
    """Return the error of a batch that the library could not commit.

    Args:
        url: of the table.
        version: of the batch.
        error: of the last attempt.
        attempts: how many there were, if other writers came first.
    """
    why = _one_line(error)
    if isinstance(error, CommitFailedError):
        return SinkError(
            f"{url}: batch {version} is not committed, because other writers came first at each of {attempts} attempts "
            f"({why}). Start the job again when they have ended: it resumes with the same batch"
        )
    return OutputNotWritable(
        f"{url} cannot be written: {why}. Make it writable, with room on its disk, and start the job again: it resumes "
        f"with batch {version}"
    )


def _one_line(error: Exception) -> str:
    return " ".join(_NOT_TEXT.sub(" ", str(error)).split())[:_LONGEST_REASON]


def require_plain_name(url: str) -> None:
    """Raise `UnsupportedTable` for a name by which the library would not reach the folder that Spark reaches.

    It reads the log of `a%20b` in the folder `a b`, and writes to `a%20b`; a backslash it takes for `/` in one of the
    two. A panic ends its commits to a folder with `[`, `]`, `^` or `|`. On S3, `#` and `?` end the name.

    Args:
        url: the table's folder, or `s3a://bucket/path`.
    """
    found = _MISREAD.search(url) or ("://" in url and _ENDS_A_URL.search(url))
    if found:
        raise UnsupportedTable(f"the library does not reach a folder with {found[0]!r} in its name as Spark does")


def table_url(path: str) -> str:
    """Return the name of a table's folder for the library.

    Args:
        path: as Spark names it: a path, a `file:` URL, or `s3a://bucket/path`.

    Raises:
        UnsupportedTable: the library does not reach it.
    """
    folder = local_folder(path)
    if folder is None and not path.startswith("s3a://"):
        raise UnsupportedTable(f"{path} is neither on a local disk nor on S3")
    require_plain_name(folder or path)
    return folder or path


def local_folder(path: str) -> str | None:
    """Return the folder on a local disk that a path or `file:` URL names; None if it is elsewhere.

    As Hadoop reads it: `%20`, `#` and `?` in a URL are characters of the folder's name.

    >>> local_folder("file:/data/log"), local_folder("/data/log"), local_folder("hdfs://host/log")
    ('/data/log', '/data/log', None)
    """
    if path.startswith("/"):
        return path
    folder = local_path(path) if path.startswith(("file:///", "file:/")) else None
    return None if folder is None or _has_host(path) else str(folder)


def _has_host(url: str) -> bool:
    return url.startswith("file://") and not url.startswith("file:///")


def storage_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the library's options for the store and the credentials that Spark uses on S3.

    Commits are conditional writes: S3 refuses the second of two commits of one version.

    Args:
        settings: those of `S3A_SETTINGS` that have a value.

    Raises:
        UnsupportedTable: a setting has no counterpart in the library, such as encryption by a key.
    """
    for name in ("encryption.algorithm", "server-side-encryption-algorithm", "acl.default"):
        if settings.get(name):
            raise UnsupportedTable(f"the setting fs.s3a.{name} is {settings[name]!r}")
    if settings.get("requester.pays.enabled", "false").lower() == "true":
        raise UnsupportedTable("the setting fs.s3a.requester.pays.enabled is 'true'")
    providers = [one.strip() for one in settings.get("aws.credentials.provider", "").split(",") if one.strip()]
    for provider in providers:
        if provider.rpartition(".")[2] not in _PROVIDERS:
            raise UnsupportedTable(f"the credentials on S3 come from {provider}")
    options = {"aws_conditional_put": "etag"}
    names = {"aws_access_key_id": "access.key", "aws_secret_access_key": "secret.key"}
    names |= {"aws_session_token": "session.token", "aws_region": "endpoint.region"}
    options |= {option: settings[name] for option, name in names.items() if settings.get(name)}
    return options | _endpoint(settings)


def _endpoint(settings: Mapping[str, str]) -> dict[str, str]:
    endpoint = settings.get("endpoint", "")
    if endpoint.removeprefix("https://") in ("", "s3.amazonaws.com"):
        return {}  # Amazon's own: the region says where it is
    if "://" not in endpoint:
        secure = settings.get("connection.ssl.enabled", "true").lower() == "true"
        endpoint = f"{'https' if secure else 'http'}://{endpoint}"
    path_style = settings.get("path.style.access", "false").lower() == "true"
    return {
        "aws_endpoint": endpoint,
        "aws_allow_http": str(endpoint.startswith("http://")).lower(),
        "aws_virtual_hosted_style_request": str(not path_style).lower(),
        "aws_region": settings.get("endpoint.region") or "us-east-1",
    }


_COMMITS_AN_OPEN = 50  # a table kept open takes longer with each commit: 8 ms at first, 25 after a hundred
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""A commit is only a commit: by itself the library cleans up the log after each, by rules that are not the table's."""
_STATS_ARE_WHOLE_MS = pa.scalar(1000, pa.duration("us"))
_READ_DURATION = re.compile(r"interval \d+ (second|minute|hour|day|week)s?")
_FAR_DAYS = 73_000_000  # some 200,000 years
_NEAR_TIMES = tuple(pa.scalar(datetime(year, 1, 1, tzinfo=UTC), pa.timestamp("us", tz="UTC")) for year in (1901, 2262))
_NEAR_DAYS = (pa.scalar(date(1583, 1, 1), pa.date32()), pa.scalar(date(9999, 12, 31), pa.date32()))
_CALENDAR = b"org.apache.spark.legacyDateTime"
"""A key in the footer of files with days or times of the Julian calendar."""
_EXACT_DIGITS = 15  # a decimal of so many digits is the same one after it was a double


class OpenTable:
    """A table as it was when it was opened, and what was committed to it since.

    Args:
        url: as `open_table`.
        options: as `open_table`.
        readable: names of files that were found to be readable when it was open before.
    """

    def __init__(self, url: str, options: dict[str, str], readable: set[str]) -> None:
        self._url, self._delta = url, open_table(url, options)
        self._properties = self._delta.metadata().configuration
        self._schema = pa.schema(self._delta.schema().to_arrow())
        self._known: dict[str, int] = {}
        self._ends: dict[str | None, pa.Scalar | None] = {}
        self._opened_at = self._delta.version()
        self._commits = 0
        self._others_may_have_written, self._readable = True, readable

    def version_of(self, app_id: str) -> int:
        """Return the last transaction version under an id; -1 if there is none."""
        if app_id not in self._known:
            done = self._delta.transaction_version(app_id)
            self._known[app_id] = -1 if done is None else done
        return self._known[app_id]

    def row_count(self) -> int | None:
        """Return how many rows the table has, by the statistics of its files; None if they do not say."""
        files = pa.table(self._delta.get_add_actions(flatten=True))
        if not files.num_rows:
            return 0
        if "num_records" not in files.column_names or files.column("num_records").null_count:
            return None
        return int(pc.sum(files.column("num_records")).as_py())

    def committed(self, app_id: str, version: int) -> None:
        """Take note of a commit under an id."""
        self._known[app_id] = version
        self._commits += 1

    @property
    def version(self) -> int:
        """The version of the table that is known here."""
        return int(self._delta.version())

    @property
    def is_stale(self) -> bool:
        """Whether it should be opened again: another writer has committed, or commits begin to take long."""
        return self._commits >= _COMMITS_AN_OPEN or self._delta.version() != self._opened_at + self._commits

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether Spark would write a checkpoint of the log after the commit that was made last."""
        return self._delta.version() % int(self._properties.get("delta.checkpointInterval", "10")) == 0

    def append(self, rows: pa.Table, once: CommitProperties) -> None:
        """Write a file and commit it, under the transaction in `once`. The rows are in the file in their order."""
        rows = self._aligned(rows)
        for field in self._schema:
            if field.name not in rows.column_names:  # rows of an earlier declaration lack what a start has added since
                rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
        rows = rows.select(self._schema.names).combine_chunks()  # the library writes several chunks in any order
        write_deltalake(
            self._delta,
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
        rows = self._aligned(rows)
        begin = None if since is None else lowest(rows, since)
        end = self._end(since)
        before = self.version
        if begin is not None and end is not None and begin.value > end.value:
            self.append(rows, once)
        else:
            self._merge(rows, once, _conditions(keys, since, begin), newer_by)
            if self.version == before:  # all rows are older
                self.commit_files([], once)
        if since is not None and end is not None and (greatest := pc.max(rows.column(since))).is_valid:
            self._ends[since] = max(end, greatest, key=lambda one: one.value)

    def commit_files(self, files: list[AddAction], once: CommitProperties) -> None:
        """Commit files that are in its folder, or none, under the transactions in `once`."""
        schema, hooks = self._delta.schema(), NO_HOOKS
        self._delta.create_write_transaction(
            [*files], "append", schema, commit_properties=once, post_commithook_properties=hooks
        )

    def write_checkpoint(self) -> None:
        """Write a checkpoint of the log, and remove commits that need not be kept, if the table's owner permits that.

        For a duration that it cannot read, the library would take 30 days, without an error.
        """
        self._delta.create_checkpoint()
        is_wanted = self._properties.get("delta.enableExpiredLogCleanup", "true").lower() == "true"
        if is_wanted and _READ_DURATION.fullmatch(
            self._properties.get("delta.logRetentionDuration", "interval 30 days")
        ):
            self._delta.cleanup_metadata()

    def _merge(self, rows: pa.Table, once: CommitProperties, conditions: list[str], newer_by: str) -> None:
        if self._others_may_have_written:  # by the log of the table as it was opened; since then the library writes
            _require_readable_times(self._delta, self._files, self._schema, self._readable)
            self._others_may_have_written = False
        every = {f"t.{_quoted(name)}": f"s.{_quoted(name)}" for name in rows.column_names}
        merge = self._delta.merge(
            rows,
            " AND ".join(conditions),
            source_alias="s",
            target_alias="t",
            writer_properties=_file_properties(self._schema),
            commit_properties=once,
            post_commithook_properties=NO_HOOKS,
        )
        merge.when_matched_update(every, f"coalesce(s.{_quoted(newer_by)} >= t.{_quoted(newer_by)}, true)")
        merge.when_not_matched_insert(every).execute()

    def _end(self, column: str | None) -> pa.Scalar | None:
        """Return up to where the table reaches in a column, by the statistics of its files; None if they do not say."""
        if column not in self._ends:
            files = self._files  # of any column: some may not be in its folder
            self._ends[column] = None if column is None else _end_of(files, column)
        return self._ends[column]

    @cached_property
    def _files(self) -> pa.Table:
        """The files as they were at the first merge after the table was opened. An append needs no such list."""
        return files_of(self._delta)

    def _aligned(self, rows: pa.Table) -> pa.Table:
        if not set(rows.column_names) <= set(self._schema.names):
            raise SchemaMismatch(
                f"the Delta table has other columns now ({', '.join(self._schema.names)}) than the results "
                f"({', '.join(rows.column_names)}): they were changed while the job ran. Change them back, and start "
                "the job again: it resumes with the same batch"
            )
        return with_columns(rows, pa.schema([field for field in self._schema if field.name in rows.column_names]))


def open_table(url: str, options: Mapping[str, str], version: int | None = None) -> DeltaTable:
    """Open a table that the library writes as Spark's Delta does.

    Args:
        url: its folder, or `s3a://bucket/path`.
        options: of `storage_options`, for a table on S3.
        version: as of which it is read; its newest one, if not given.

    Raises:
        UnsupportedTable: the library cannot be trusted to write it.
    """
    require_plain_name(url)
    try:
        with panic_as_unsupported():
            delta = DeltaTable(url, version=version, storage_options=dict(options) or None)
    except (DeltaError, OSError) as error:
        raise not_opened(error) from error
    protocol, metadata = delta.protocol(), delta.metadata()
    features = [*(protocol.reader_features or ()), *(protocol.writer_features or ())]
    require_protocol(protocol.min_reader_version, protocol.min_writer_version, features)
    require_metadata(schema_of(delta.schema().to_json()), metadata.partition_columns, metadata.configuration)
    return delta


@contextmanager
def panic_as_unsupported() -> Iterator[None]:
    """Leave a table to Spark by which the library panics in the block; whatever it has committed, Spark skips.

    A panic is a defect of the library. It is no `Exception`: nobody would report it, and a query would wait for ever.
    One in a thread of the library is an error that says so.
    """
    try:
        yield
    except BaseException as error:
        in_thread = isinstance(error, DeltaError) and "panicked with message" in str(error)
        if type(error).__name__ != "PanicException" and not in_thread:
            raise
        raise UnsupportedTable(f"the library has failed by a defect of its own: {error}") from error


def files_of(delta: DeltaTable) -> pa.Table:
    """Return the files of an open table, one a row: `path`, `size_bytes`, and what Delta knows of their values.

    Raises:
        UnsupportedTable: some of them are not in its folder.
    """
    files = pa.table(delta.get_add_actions(flatten=True))
    if any(path.startswith(("/", "file:")) or "://" in path for path in files.column("path").to_pylist()):
        raise UnsupportedTable("it has files in the folders of other tables, as a shallow clone has")
    return files


def _require_readable_times(delta: DeltaTable, files: pa.Table, schema: pa.Schema, readable: set[str]) -> None:
    """Raise `UnsupportedTable` if a file may hold a time that the library reads as another one (A5).

    An OPTIMIZE by others writes timestamps as INT96, which the library reads as nanoseconds since 1970 in 64 bits; with
    `datetimeRebaseModeInWrite=LEGACY` it writes days before 1582, and times before 1900, of the Julian calendar. Files
    whose statistics show no such time are readable; of the others the footer says how they were written.

    Args:
        delta: the table.
        files: as `files_of` has them.
        schema: its columns.
        readable: names of files that were found to be readable before; those that are found now are added.
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
    skip the file, and not find the row.

    Args:
        schema: the columns.
        rows: what the file will have; None if that is not known, as of one that a merge replaces.
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
        return all(one is None or abs(one) < _FAR_DAYS for one in limits.values())
    if pa.types.is_floating(kind):
        return rows is not None and not pc.any(pc.is_nan(rows.column(field.name))).as_py()
    return not pa.types.is_nested(kind)


def _conditions(keys: Sequence[str], since: str | None, begin: pa.Scalar | None) -> list[str]:
    same = [f"(t.{_quoted(key)} IS NOT DISTINCT FROM s.{_quoted(key)})" for key in keys]
    if since is not None and begin is not None:
        whole_ms = begin.value // 1000 * 1000
        same.append(f"(t.{_quoted(since)} >= to_timestamp_micros({whole_ms}))")
    return same or ["true"]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
