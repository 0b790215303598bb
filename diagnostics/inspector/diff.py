"""What has changed between two batches of a job, or two of its savepoints: panes or partitions, and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.diagnostics.inspector import table_changes
from panekeeper.diagnostics.inspector.opened import Opened, opened
from panekeeper.diagnostics.inspector.panes import as_frame, open_rows
from panekeeper.diagnostics.inspector.table_changes import NOT_VALUES, LogColumns
from panekeeper.diagnostics.keys import Key, TypedKey
from panekeeper.diagnostics.tables.rows import Bounds, read_plain_files, read_plain_table, us_of
from panekeeper.diagnostics.tables.written import BATCH, files_of_batches
from panekeeper.framework.core.aggregates.groups import RANK
from panekeeper.framework.core.inspection.one_key import is_of
from panekeeper.framework.core.job_spec import PORT
from panekeeper.framework.declarations.aggregates import GROUPS
from panekeeper.framework.declarations.errors import CheckpointError, DeclarationError, PanekeeperError
from panekeeper.recovery.errors import RowsGone
from panekeeper.recovery.jobs.checkpoint import current_folder
from panekeeper.recovery.savepoint.catalog import show_trusted
from panekeeper.recovery.storage.locations import Location, checkpoint_at, open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.job_record import read_record
from panekeeper.state.history import aggregates_of, declarations_by_window, in_force
from panekeeper.state.table_roles import role_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.diagnostics.inspector.panes import OpenRows

_VALUES = (
    *("pane_end", "rows", "state", "firings", "unfired", "waiting", "since_fired"),
    *("first_row", "last_row", "fires_at", "leaves_at"),
)
"""What may change of a pane, session or partition; the last ones of where rows are kept."""
_OF_PANES = frozenset({"fires_at"})
"""Of these that follow from the watermark, and are no change, where there are panes."""
_MOST_ROWS = 200_000
"""Of more results in the log, of the time that new ones are of, Spark says what these change."""


def diff(
    place: Location,
    before: int | str,
    after: int | str,
    *,
    results: bool = False,
    window: str | None = None,
    key: Key | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Return which panes, sessions or partitions came, went or changed between two states; or which results did.

    Columns, after the partition columns and `pane_start`: `change`, "came", "went" or "changed"; and what `panes`, or
    `partitions`, have of it: the value after, then, with the ending `_before`, the one before.

    With `results`: of what the log got from the batches between, the newest result of each partition and pane. It
    "came", or has "changed", if there was one before; one that a merged session has taken back "went". Then `batch`,
    the last one that wrote it, `refinement`, `reason`, and the result columns, with `_before` as above. A firing that
    no later one replaces, as of windows in arrival order and interval joins, has come. Of joined panes, and of
    operators, the rows of the newest firing are there, without those before.

    Args:
        place: the job's checkpoint, or a location of savepoints.
        before: the number of a batch of the checkpoint, or the name of a savepoint in the location.
        after: as `before`.
        results: the results, and not what is open.
        window: the name of one of several windows; needed for results, whose columns it has.
        key: only these partitions, by the values of some of their columns.
        s3: how S3 is reached.
        spark: the session that reads; a new one if not given.

    Raises:
        RowsGone: files with the results were removed, as by a VACUUM.
        CheckpointError, DeclarationError, CorruptState: as `panes`; and of results, if the log has forgotten commits,
            the savepoints are of two jobs, or `after` is the earlier one.
    """
    between = _results if results else _changes
    return as_frame(*between(place, before, after, window, key, s3, spark))


def changes(
    place: Location,
    before: int | str,
    after: int | str,
    *,
    results: bool = False,
    window: str | None = None,
    key: Key | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> OpenRows:
    """Return the rows of `diff`. Raises as that."""
    between = _results if results else _changes
    return between(place, before, after, window, key, s3, spark)[1]


def _changes(
    place: Location,
    before: int | str,
    after: int | str,
    window: str | None,
    key: Key | None,
    s3: S3Options | None,
    spark: SparkSession | None,
) -> tuple[Opened, OpenRows]:
    (state, old), (other, new) = (
        _open_at(place, batch_or_savepoint, window, key, s3, spark) for batch_or_savepoint in (before, after)
    )
    columns = new.column_names if isinstance(new, pa.Table) else new.columns
    names = _identity(columns)
    has_panes = "pane_start" in names
    values = [name for name in columns if name in _VALUES and not (has_panes and name in _OF_PANES)]
    if isinstance(old, pa.Table) and isinstance(new, pa.Table) and _is_alike(old, new, [*names, *values]):
        return state, table_changes.changes_of_open(old, new, names, values)
    from panekeeper.diagnostics.inspector.frame_changes import changes_of_open

    return state, changes_of_open(as_frame(state, old), as_frame(other, new), names, values)


def _is_alike(old: pa.Table, new: pa.Table, names: list[str]) -> bool:
    """Return whether the columns that are compared have one type: Spark knows which stands for two."""
    return all(
        name in old.column_names and old.schema.field(name).type == new.schema.field(name).type for name in names
    )


def _identity(columns: list[str]) -> list[str]:
    """Return the partition columns, the port, and when the pane starts: by these, one is the same before and after."""
    first = next(at for at, name in enumerate(columns) if name in ("pane_start", "rows"))
    return columns[: first + 1] if columns[first] == "pane_start" else columns[:first]


def _open_at(
    place: Location,
    what: int | str,
    window: str | None,
    key: Key | None,
    s3: S3Options | None,
    spark: SparkSession | None,
) -> tuple[Opened, OpenRows]:
    batch, savepoint = (what, None) if isinstance(what, int) else (None, what)
    with opened(place, window=window, batch=batch, savepoint=savepoint, s3=s3, spark=spark) as state:
        of_panes = [port for port in state.ports if port.has_panes]
        return state, open_rows(state, of_panes or state.ports, key)


def end_of_panes(
    place: Location, before: int | str, after: int | str, *, window: str | None = None, s3: S3Options | None = None
) -> str | None:
    """Return what panes that went between two batches have become; None of savepoints, or if `after` is the earlier.

    A pane leaves the state as it closes. A session also does as another one takes its rows.
    """
    if isinstance(before, str) or isinstance(after, str) or after <= before:
        return None
    with opened(place, window=window, batch=after, s3=s3) as state:
        return "closed or merged" if any(port.is_session for port in state.ports) else "closed"


# Results


def windows_of(place: Location, state: int | str, *, s3: S3Options | None = None) -> list[str]:
    """Return the names of several windows, by a batch of a checkpoint or a savepoint; none if there is only one."""
    if isinstance(state, str):
        declaration = show_trusted(open_archive(place, s3), state).declaration
    else:
        record = read_record(current_folder(checkpoint_at(place, s3)))
        declaration = {} if record is None else record.declaration
    return [name for name in declarations_by_window(declaration) if name]


def _results(
    place: Location,
    before: int | str,
    after: int | str,
    window: str | None,
    key: Key | None,
    s3: S3Options | None,
    spark: SparkSession | None,
) -> tuple[Opened, OpenRows]:
    with opened(place, window=window, savepoint=after if isinstance(after, str) else None, s3=s3, spark=spark) as state:
        state.require_one_window()
        last = state.batch if isinstance(after, str) else after
        if last > state.batch:
            raise CheckpointError(f"batch {last} of {state.files.root} is not committed; the last one is {state.batch}")
        first = before if isinstance(before, int) else _batch_of(place, before, state, s3)
        if first > last:
            raise DeclarationError(f"before is {before!r} and after {after!r}, which is the earlier one; exchange them")
        role = role_of("log", state.ports[0].window)
        files = files_of_batches(state.files, state.record, role, first + 1, last, version=state.versions.get(role))
        typed = None if key is None else state.typed_key(state.ports[0], key)
        try:
            results = _of_plain_tables(state, role, files, typed)
            return state, _by_spark(state, role, files, typed) if results is None else results
        except PanekeeperError:
            raise
        except Exception as error:
            from panekeeper.framework.engine.session.spark_errors import all_said

            raise RowsGone(
                f"the results of batches {first + 1} to {last} of {state.files.root} cannot be read\n{all_said(error)}"
            ) from error


def _batch_of(place: Location, savepoint: str, state: Opened, s3: S3Options | None) -> int:
    """Return the batch of a savepoint of the same job. Raises `DeclarationError` for one of another."""
    manifest = show_trusted(open_archive(place, s3), savepoint)
    if manifest.job_id != state.record.id:
        raise DeclarationError(
            f"savepoint {savepoint} is of job {manifest.job!r} and another checkpoint than the other one; their "
            "results cannot be compared"
        )
    return manifest.batch


def _of_plain_tables(state: Opened, role: str, files: dict[str, int], key: TypedKey | None) -> pa.Table | None:
    """Return what the rows of these files change in the log; None if Spark must say it."""
    path = state.tables[role]
    parts = read_plain_files(path, files)
    if parts is None:
        return None
    tables = [
        part.append_column(BATCH, pa.array([files[name]] * part.num_rows, pa.int64())) for name, part in parts.items()
    ]
    rows = _results_of(pa.concat_tables(tables, promote_options="default"), key) if tables else None
    log = read_plain_table(path, {} if rows is None else _times_of(rows))
    if log is None or log.num_rows > _MOST_ROWS:
        return None
    log = _results_of(log.drop_columns(["file"]), key)
    empty = log.slice(0, 0).append_column(BATCH, pa.array([], pa.int64()))
    if rows is None:
        rows = empty
    if not _is_alike(empty, rows, rows.column_names):
        return None
    log_columns, replaces, has_refinements = _log_columns(state, rows.column_names)
    changed_results = table_changes.changes_of_results(
        rows, log if replaces else None, log_columns, has_refinements=has_refinements
    )
    _require_no_column_twice(changed_results.column_names)
    return changed_results


def _results_of(rows: pa.Table, key: TypedKey | None) -> pa.Table:
    """Return the results in rows of the log, those of a partition or of all."""
    if key is not None:
        rows = rows.filter(is_of(rows, key.values))
    return rows.filter(pc.fill_null(pc.equal(rows.column("op"), 1), False)) if "op" in rows.column_names else rows


def _times_of(rows: pa.Table) -> dict[str, Bounds]:
    """Return when the panes or sessions begin of which the log has the results before these: the rest is not read."""
    place = next((name for name in ("session_start", "pane_start") if name in rows.column_names), None)
    if place is None:
        return {}
    starts = us_of(rows.column(place)).chunks
    if "replaces" in rows.column_names:  # the sessions that were merged began elsewhere
        merged = pc.list_flatten(rows.column("replaces"))
        starts = [*starts, *us_of(merged).chunks]
    bounds = pc.min_max(pa.chunked_array(starts, pa.int64())).as_py()
    return {} if bounds["min"] is None else {place: (bounds["min"], bounds["max"])}


def _by_spark(state: Opened, role: str, files: dict[str, int], key: TypedKey | None) -> DataFrame:
    from panekeeper.diagnostics.inspector.by_spark import is_of_key
    from panekeeper.diagnostics.inspector.frame_changes import changes_of_results
    from panekeeper.diagnostics.tables.written import frame_of_files

    rows = frame_of_files(state.spark, state.tables[role], files)
    log = state.frame(state.tables[role])
    if key is not None:
        rows, log = (frame.where(is_of_key(key)) for frame in (rows, log))
    if "op" in rows.columns:
        rows, log = rows.where("op = 1"), log.where("op = 1")
    log_columns, replaces, has_refinements = _log_columns(state, rows.columns)
    changed_results = changes_of_results(rows, log if replaces else None, log_columns, has_refinements=has_refinements)
    _require_no_column_twice(changed_results.columns)
    return changed_results.localCheckpoint()


def _require_no_column_twice(columns: list[str]) -> None:
    if len({*columns}) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise DeclarationError(f"the results have a column {twice!r}, as their differences have; read the log itself")


def _log_columns(state: Opened, columns: list[str]) -> tuple[LogColumns, bool, bool]:
    """Return what the columns of a log stand for, whether a result has a value before, and whether refinements."""
    port = state.ports[0]
    declaration = declarations_by_window(in_force(state.record.declaration, state.batch))[port.window]
    is_discarding, aggregates = declaration.get("window.results") == "discarding", aggregates_of(declaration)
    places = ["session_start"] if port.is_session else ["pane_start", "pane_end", "session_start"]
    more = [PORT] * state.has_ports + [RANK] * (GROUPS in aggregates) + ["refinement"] * is_discarding
    keys = [*port.log_keys, *(name for name in [*places, *more] if name in columns)]
    values = [name for name in columns if name not in {*keys, BATCH, *NOT_VALUES}]
    has_refinements = "refinement" in columns and not is_discarding
    return LogColumns(keys, values, BATCH), bool(aggregates), has_refinements
