"""May the library `deltalake` write a Delta table, and how does it reach it?

Only what is known to be written correctly passes. A feature, property or column attribute that is not listed here
stands for a rule that Spark's Delta applies on write and the library may not: such a table is written by Spark, and so
is one that is neither on a local disk nor on S3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, PostCommitHookProperties, Schema
from deltalake.exceptions import DeltaError

from panekeeper.framework.engine.sink.table_at_version import Protocol, TableAtVersion
from panekeeper.state.checkpoint.folder import local_path

NEW_TABLE = {"delta.checkpointInterval": "100"}
"""The properties of tables of ours. Delta's default, a checkpoint of the log every 10 commits, nearly doubles the cost
of small batches."""
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""A commit is only a commit: by itself the library cleans up the log after each, by rules that are not the table's."""
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
_DECIMAL = re.compile(r"decimal\(\d+,\d+\)")
_BY_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that Spark's Delta has in names of columns of tables with column mapping only."""
_MISREAD = re.compile(r"[\x00-\x1f\x7f%\[\\\]^|]")
"""Characters in the name of a folder by which the library does not reach it as Spark does: it reads the log of `a%20b`
in the folder `a b`, and writes to `a%20b`; a backslash it takes for `/` in one of the two; a panic ends its commits to
a folder with `[`, `]`, `^` or `|`."""
_ENDS_A_URL = re.compile(r"[#?]|\s$")
_NOT_TEXT = re.compile(r"\x1b\[\d*m|\u21b3")  # colours and arrows in the library's errors
_AGAIN_AND_AGAIN = re.compile(r"after \d+ retries")
"""Of the library's errors: a store that is away, or overloaded. What it refuses is not tried again."""


class UnsupportedTable(Exception):
    """The library cannot be trusted to write this table; the message says why. Spark's Delta can write it."""


class UnreachableTable(UnsupportedTable):
    """The store of a table does not respond to the library just now; later it may."""


def open_to_read(url: str, options: Mapping[str, str], version: int | None = None) -> DeltaTable:
    """Open a table that the library reads; it may not write each of them as Spark's Delta does."""
    _require_plain_name(url)
    try:
        with panic_as_unsupported():
            return DeltaTable(url, version=version, storage_options=dict(options) or None)
    except (DeltaError, OSError) as error:
        why = text_of(error)
        is_away = _AGAIN_AND_AGAIN.search(why) is not None and "certificate" not in why.lower()
        raise (UnreachableTable if is_away else UnsupportedTable)(f"the library cannot open it: {why}") from error


def open_table(url: str, options: Mapping[str, str], version: int | None = None) -> DeltaTable:
    """Do the same with a table that the library may also write. Raises `UnsupportedTable` if it may not."""
    delta = open_to_read(url, options, version)
    _require_writable(table_of(delta, url))
    return delta


def table_of(delta: DeltaTable, path: str) -> TableAtVersion:
    """Return what the library says of an open table. Its transactions are read when they are asked for."""
    protocol, metadata = delta.protocol(), delta.metadata()

    def last_transaction(app_id: str) -> int:
        done = delta.transaction_version(app_id)
        return -1 if done is None else int(done)

    return TableAtVersion(
        path=path,
        version=int(delta.version()),
        id=str(metadata.id),
        columns=delta.schema().to_json(),
        properties=metadata.configuration,
        partition_columns=tuple(metadata.partition_columns),
        protocol=Protocol(
            reader=protocol.min_reader_version,
            writer=protocol.min_writer_version,
            reader_features=frozenset(protocol.reader_features or ()),
            writer_features=frozenset(protocol.writer_features or ()),
        ),
        last_transaction=last_transaction,
    )


def _require_writable(table: TableAtVersion) -> None:
    """Raise `UnsupportedTable` unless what a table is like is known to be written as Spark's Delta does."""
    protocol = table.protocol
    if (protocol.writer > 2 and protocol.writer != 7) or protocol.reader not in (1, 3):  # noqa: PLR2004 -- Delta's
        raise UnsupportedTable(
            f"its protocol has reader version {protocol.reader} and writer version {protocol.writer}"
        )
    if unknown := sorted((protocol.reader_features | protocol.writer_features) - _FEATURES):
        raise UnsupportedTable(f"it has the table feature {unknown[0]!r}")
    if table.partition_columns:
        raise UnsupportedTable(f"Delta partitions it by the column {table.partition_columns[0]!r}")
    for name, value in table.properties.items():
        if name.startswith("delta.") and name not in _PROPERTIES and value not in ("false", "none"):
            raise UnsupportedTable(f"its property {name} is {value!r}")
    _require_types(json.loads(table.columns))


def create_table(path: str, options: Mapping[str, str], schema: str, properties: Mapping[str, str]) -> TableAtVersion:
    """Create an empty table, unless there is one; return what is there.

    Raises `UnsupportedTable` if the library cannot write such a table, or not there; or if Spark may refuse it, which
    refuses more, and could not restore the table.
    """
    columns = json.loads(schema)
    _require_types(columns)
    for name, value in properties.items():
        if NEW_TABLE.get(name) != value:
            raise UnsupportedTable(f"its property {name} is for Spark to check")
    for name in _names(columns):
        if _BY_MAPPING.search(name):
            raise UnsupportedTable(f"its column {name!r} needs column mapping")
    if "timestamp_ntz" in schema:
        raise UnsupportedTable("a column without time zone is a feature of the table")
    try:
        made = DeltaTable.create(
            table_url(path),
            Schema.from_json(schema),
            mode="ignore",
            configuration=dict(properties),
            storage_options=dict(options) or None,
        )
    except (DeltaError, OSError) as error:
        raise UnsupportedTable(f"the library cannot create it: {text_of(error)}") from error
    return table_of(made, path)


def _require_types(kind: Any, name: str = "") -> None:
    """Raise `UnsupportedTable` unless the library writes values of a type, as a table's log has it, as Spark does."""
    if isinstance(kind, str):
        if kind not in _TYPES and not _DECIMAL.fullmatch(kind):
            raise UnsupportedTable(f"its column {name!r} is of type {kind}")
    elif kind["type"] == "struct":
        for field in kind["fields"]:
            name = field["name"]
            if attributes := sorted(set(field.get("metadata", {})) - {"comment"}):
                raise UnsupportedTable(f"its column {name!r} has the attribute {attributes[0]!r}")
            if not field.get("nullable", True):
                raise UnsupportedTable(f"its column {name!r} is NOT NULL")
            _require_types(field["type"], name)
    else:
        parts = {"array": ("elementType",), "map": ("keyType", "valueType")}.get(kind["type"])
        if parts is None:
            raise UnsupportedTable(f"its column {name!r} is of type {kind['type']}")
        for part in parts:
            _require_types(kind[part], name)


def _names(kind: Any) -> Iterator[str]:
    """Yield the names of the columns of a table, and of the fields within them."""
    if isinstance(kind, str):
        return
    for field in kind.get("fields", ()):
        yield field["name"]
        yield from _names(field["type"])
    for part in ("elementType", "keyType", "valueType"):
        yield from _names(kind.get(part, ""))


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

    Raises `UnsupportedTable` if some of them are not in its folder.
    """
    files = pa.table(delta.get_add_actions(flatten=True))
    if any(path.startswith(("/", "file:")) or "://" in path for path in files.column("path").to_pylist()):
        raise UnsupportedTable("it has files in the folders of other tables, as a shallow clone has")
    return files


def text_of(error: Exception) -> str:
    """Return what an error of the library says, in one line."""
    return " ".join(_NOT_TEXT.sub(" ", str(error)).split())


def table_url(path: str) -> str:
    """Return the name of a table's folder for the library, of a path as Spark names it. Raises `UnsupportedTable`."""
    folder = local_folder(path)
    if folder is None and not path.startswith("s3a://"):
        raise UnsupportedTable(f"{path} is neither on a local disk nor on S3")
    _require_plain_name(folder or path)
    return folder or path


def _require_plain_name(url: str) -> None:
    if misread := _MISREAD.search(url) or ("://" in url and _ENDS_A_URL.search(url)):
        raise UnsupportedTable(f"the library does not reach a folder with {misread[0]!r} in its name as Spark does")


def local_folder(path: str) -> str | None:
    """Return the folder on a local disk that a path or `file:` URL names; None if it is elsewhere.

    As Hadoop reads it: `%20`, `#` and `?` in a URL are characters of the folder's name.

    >>> local_folder("file:/data/log"), local_folder("/data/log"), local_folder("hdfs://host/log")
    ('/data/log', '/data/log', None)
    """
    if path.startswith("/"):
        return path
    has_host = path.startswith("file://") and not path.startswith("file:///")
    folder = local_path(path) if path.startswith("file:/") and not has_host else None
    return None if folder is None else str(folder)


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


def storage_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the library's options for the store and the credentials that Spark uses on S3, by those of `S3A_SETTINGS`.

    Commits are conditional writes: S3 refuses the second of two commits of one version. Raises `UnsupportedTable` for a
    setting without a counterpart in the library, such as encryption by a key.
    """
    for name in ("encryption.algorithm", "server-side-encryption-algorithm", "acl.default"):
        if settings.get(name):
            raise UnsupportedTable(f"the setting fs.s3a.{name} is {settings[name]!r}")
    if _is_true(settings, "requester.pays.enabled", "false"):
        raise UnsupportedTable("the setting fs.s3a.requester.pays.enabled is 'true'")
    for provider in filter(None, map(str.strip, settings.get("aws.credentials.provider", "").split(","))):
        if provider.rpartition(".")[2] not in _PROVIDERS:
            raise UnsupportedTable(f"the credentials on S3 come from {provider}")
    options = {"aws_conditional_put": "etag"}
    names = {"aws_access_key_id": "access.key", "aws_secret_access_key": "secret.key"}
    names |= {"aws_session_token": "session.token", "aws_region": "endpoint.region"}
    options |= {option: settings[name] for option, name in names.items() if settings.get(name)}
    endpoint = settings.get("endpoint", "")
    if endpoint.removeprefix("https://") in ("", "s3.amazonaws.com"):
        return options  # Amazon's own: the region says where it is
    if "://" not in endpoint:
        endpoint = f"{'https' if _is_true(settings, 'connection.ssl.enabled', 'true') else 'http'}://{endpoint}"
    return options | {
        "aws_endpoint": endpoint,
        "aws_allow_http": str(endpoint.startswith("http://")).lower(),
        "aws_virtual_hosted_style_request": str(not _is_true(settings, "path.style.access", "false")).lower(),
        "aws_region": settings.get("endpoint.region") or "us-east-1",
    }


def _is_true(settings: Mapping[str, str], name: str, default: str) -> bool:
    return settings.get(name, default).lower() == "true"
