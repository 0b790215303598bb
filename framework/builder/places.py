"""Where a user puts tables and checkpoints: folders, URLs, or names of tables in a catalog.

Tables that are given by their names are created in the catalog of the session at the first start, then used by their
folders: savepoints, restores and clones know folders only, so a table keeps its results whatever a catalog calls it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from panekeeper.framework.declarations.errors import DeclarationError, OutputNotWritable, SinkError, did_you_mean
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.framework.engine.sink.spark_table import is_delta_table
from panekeeper.state.checkpoint.folder import local_path, spark_url
from panekeeper.state.table_roles import role_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.engine.flow.pipeline import Pipeline
    from panekeeper.framework.engine.sink.tables import TableLayout, Tables

Place = str | os.PathLike[str]

_S3 = ("s3", "s3a", "s3n")
_OF_A_MERGE = re.compile(
    r"_row_dropped_|_row_id_|_(source|target)_row_present_|_target_row_index_|__delta_rs_.*", re.IGNORECASE
)
"""Columns that a merge adds to the rows for itself, by Spark or by the library of small commits."""


def declared_tables(
    log: Place, others: Mapping[str, Place | None], *, named: bool, windows: Sequence[str] = ("",)
) -> Tables:
    """Return the tables of a job: the log, and role -> one of the others, None for the default.

    There is no view by default. Each is given by its name in a catalog (`named`), or else by its folder. Each of
    several `windows` has a log and a view of its own, with its name at the end.
    """
    from panekeeper.framework.engine.sink.tables import Tables

    place = _name if named else _table_folder
    first = place("table" if named else "path", log)
    given = {role: place(role, to) if to else None for role, to in others.items()}
    results = {"log": first, "view": given["view"]}
    by_role = {
        role_of(kind, window): path and role_of(path, window) for kind, path in results.items() for window in windows
    }
    by_role |= {role: given[role] or f"{first}_{role}" for role in ("quarantine", "metrics", "downtime")}
    for (role, path), (other, same) in combinations(by_role.items(), 2):
        if path and path == same:
            raise DeclarationError(f"two tables are the same: {role} and {other} are both {path}; give each its own")
    return Tables(by_role)


def cluster_columns(wanted: str | Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns by which tables are clustered; a field of a struct is named `column.field`."""
    names = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    known = {column.lower() for column in columns}
    for name in names:
        if name.lower() not in known and name.partition(".")[0].lower() not in known:
            hint = did_you_mean(name, columns) or f"; the results have {', '.join(columns)}"
            raise DeclarationError(f"cluster_by: there is no column {name!r} in the results{hint}")
    return names


def qualified_path(path: Place) -> str:
    """Return a folder by its full name: Delta reads a relative one as the name of a table.

    A path without a scheme is where Spark has it, as for the inputs of the job: on Hadoop's default file system, which
    is HDFS on many clusters (there it becomes a URL, so that nothing takes it for a folder of this machine); a relative
    one in the folder in which the session was started, wherever the program has gone since.
    """
    if not os.fspath(path):
        raise DeclarationError("the path of a folder is empty; give a folder, as ./checkpoint, or a URL")
    name = os.fspath(path).rstrip("/") or "/"
    if name.startswith("~"):
        raise DeclarationError(
            f"{name} begins with '~', which Spark takes for a folder of that name: write {os.path.expanduser(name)}"  # noqa: PTH111 -- a path of the user's stays as it is
        )
    scheme, _, rest = name.partition("://")
    if scheme in _S3 and not {"@", ":"}.isdisjoint(rest.partition("/")[0]):  # a secret may hold a slash
        raise DeclarationError(
            "credentials do not belong in a URL of S3, which stands in files and messages; give s3a://bucket/path, and "
            "let Spark find them (environment, profile or role)"
        )
    if (url := spark_url(name)) != name:
        raise DeclarationError(f"{name} is not a URL that Spark can read: write {url}")
    return name if ":/" in name else full_name(name, _working_directory())


def full_name(name: str, working_directory: str) -> str:
    """Return the full name of a path without a scheme; a relative one begins in the working directory, a path or URL.

    >>> full_name("out/log", "hdfs://host:8020/user/me"), full_name("/out/log", "hdfs://host:8020/user/me")
    ('hdfs://host:8020/user/me/out/log', 'hdfs://host:8020/out/log')
    """
    if (local := local_path(working_directory)) is not None:
        return os.path.abspath(local / name)  # noqa: PTH100 -- resolve() would follow links
    url = urlsplit(working_directory)
    path = posixpath.normpath(posixpath.join(url.path or "/", name))
    return f"{url.scheme}://{url.netloc}/{path.lstrip('/')}"


def _working_directory() -> str:
    """Return where relative paths begin for Spark; the folder of this process before a session was started."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context  # noqa: SLF001 -- it has no public name
    if context is None:
        return os.curdir
    hadoop = context._jsc.hadoopConfiguration()  # noqa: SLF001 -- Hadoop's settings are reached through the gateway only
    return str(context._jvm.org.apache.hadoop.fs.FileSystem.get(hadoop).getWorkingDirectory().toString())  # noqa: SLF001 -- as above


def require_view(view: Place | None, pipeline: Pipeline) -> None:
    """Refuse a view that no batch could be merged into; None: there is none.

    Raises:
        DeclarationError: a join; only some ports have panes; or a result column has a name that a merge uses.
    """
    if view is None:
        return
    if pipeline.spec.join is not None:
        raise DeclarationError(
            f"view is {view!r}, but a join has many rows of one key, and a view one; read the log, of panes the rows "
            "with the highest refinement of each key and pane"
        )
    if pipeline.spec.mixes_window_kinds:
        raise DeclarationError(
            f"view is {view!r}, but some ports are time intervals and others are not: no row of one can be newer than "
            "a row of the other; read the log instead"
        )
    for name in (name for part in pipeline.spec.parts.values() for name in part.results_schema.names):
        if _OF_A_MERGE.fullmatch(name):
            raise DeclarationError(
                f"view is {view!r}, and the result column {name!r} has a name that a merge uses for itself; rename it"
            )


def _table_folder(what: str, path: Place) -> str:
    """Return the folder of a table, unless `path` looks like the name of a table in a catalog."""
    if isinstance(path, str) and "/" not in path and "." in path.strip("."):
        raise DeclarationError(
            f"{what} is {path!r}, which looks like the name of a table in a catalog; without table=, tables are given "
            f'by their folders: write to_delta(table=...) for names, or "./{path}" for a folder of that name'
        )
    return qualified_path(path)


def _name(what: str, name: Place) -> str:
    """Return the name of a table in a catalog, unless it is a path or has an empty part."""
    if not isinstance(name, str) or "/" in name or not all(part.strip() for part in name.split(".")):
        raise DeclarationError(
            f"{what} is {name!r}; with table= each table is given by its name in the catalog, such as "
            "prod.metrics.worst"
        )
    return name


def existing_tables(spark: SparkSession, names: Tables) -> Tables:
    """Return tables that are given by name by their folders; one that the catalog does not have stays a name."""
    return type(names)({role: name and (_folder_of(spark, name) or name) for role, name in names.by_role.items()})


def create_in_catalog(
    spark: SparkSession, names: Tables, spec: JobSpec, written: Mapping[str, str], layout: TableLayout | None
) -> Tables:
    """Create the tables that the catalog does not have, and return all by their folders.

    A table that this checkpoint has `written` to (role -> folder) is not made again, and must be that in the catalog.
    """
    from panekeeper.framework.engine.sink.tables import TableLayout, new_table

    schemas = names.schemas(spec)
    folders: dict[str, str] = {}
    for role, name in ((role, name) for role, name in names.by_role.items() if name is not None):
        folder = _folder_of(spark, name)
        if (before := written.get(role)) is not None and folder != before:
            raise SinkError(_moved(name, before, folder, is_there=is_delta_table(spark, before)))
        if folder is None:
            try:
                new_table(spark, role, schemas[name], layout or TableLayout()).tableName(_quoted(name)).execute()
            except Exception as error:
                advice = "create its schema, or get the permission"
                if "NON_EMPTY_LOCATION" in str(error):  # a start was killed before the catalog had it
                    advice = (
                        "remove that folder if it holds no rows that you need, as a start that was killed leaves it"
                    )
                raise OutputNotWritable(f"the table {name} cannot be created; {advice}:\n{all_said(error)}") from error
            folder = _folder_of(spark, name)
            assert folder is not None, f"{name} was created"
        folders[role] = folder
    return type(names)({**names.by_role, **folders})


def _folder_of(spark: SparkSession, name: str) -> str | None:
    """Return the folder of a table in the catalog; None if there is no such table."""
    if not spark.catalog.tableExists(_quoted(name)):
        return None
    try:
        detail = spark.sql(f"DESCRIBE DETAIL {_quoted(name)}").select("format", "location").collect()[0]
    except Exception as error:
        raise OutputNotWritable(f"the table {name} cannot be described:\n{all_said(error)}") from error
    if detail["format"] != "delta":
        raise OutputNotWritable(f"the table {name} is of format {detail['format']}; results need a Delta table")
    folder = local_path(detail["location"])
    return detail["location"] if folder is None else str(folder)


def _moved(name: str, before: str, folder: str | None, *, is_there: bool) -> str:
    now = "the catalog has no such table" if folder is None else f"in the catalog that is the table in {folder}"
    why = f"this checkpoint has written the table {name} to {before}, and {now}: results would be in two tables"
    if not is_there:
        return (
            f"{why}. That folder holds no Delta table any more. If the table was renamed, its folder was moved: rename "
            "it back (ALTER TABLE ... RENAME TO the name it had) and declare that name, or put the folder back. If it "
            "is lost, declare another name; or give the job a new checkpoint folder, to begin again"
        )
    first = "" if folder is None else f"rename the table that has its name (ALTER TABLE {name} RENAME TO ...), and "
    again = f"CREATE TABLE {name} USING delta LOCATION '{before}'"
    return f"{why}. To register that folder again, {first}{again}; or take the session whose catalog has it"


def _quoted(name: str) -> str:
    return ".".join(map(quoted, name.split(".")))
