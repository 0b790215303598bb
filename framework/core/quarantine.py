"""What goes to the quarantine beside rows that were rejected before: late rows, and what could not be computed.

The rules are docs/semantics.md section 12. The cause of a failure is written with it, for a function of the user's
with its stack; with `on_error="fail"` the first failure fails the batch in place of that.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.job_spec import (
    ARRIVAL_TIME,
    EVENT_TIME,
    REJECTED_SCHEMA,
    REST,
    REST_AS_JSON,
    TIMESTAMP,
    JobSpec,
)
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.row_json import joined, objects
from panekeeper.framework.declarations.aggregates import CONDITION
from panekeeper.framework.declarations.errors import InputError, as_utf8, note_user_frames, user_traceback

LATE = "LATE"
NO_SESSION = "NO_SESSION"
USER_ERROR = "USER_ERROR"

_LONGEST_STACK = 8_000
"""Number of characters of a stack that are written: the last ones, which say what was raised."""


@dataclass(frozen=True)
class FiringPlace:
    """Where something could not be computed: a partition, and the times of its pane or firing by name, in us."""

    code: int
    times_us: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class ErrorKind:
    """What could not be computed, of one kind.

    Attributes:
        reason: as in the quarantine.
        kind: the class of the error, and where it was raised.
        count: how often.
        first: what the quarantine says of the first one, with its stack.
    """

    reason: str
    kind: str
    count: int
    first: str


def added_up(kinds: Iterable[ErrorKind]) -> list[ErrorKind]:
    """Return one for each reason and kind."""
    by_kind: dict[tuple[str, str], ErrorKind] = {}
    for kind in kinds:
        known = by_kind.get((kind.reason, kind.kind))
        by_kind[kind.reason, kind.kind] = kind if known is None else replace(known, count=known.count + kind.count)
    return [*by_kind.values()]


class Quarantine:
    """The rows of one port that one batch of a key group adds to the quarantine."""

    def __init__(self, spec: JobSpec, keys: PartitionKeys) -> None:
        self._keys, self._origin = keys, spec.origin
        self._fails = spec.fails_on_error
        self._tables: list[pa.Table] = []
        self._errors: dict[tuple[str, str], ErrorKind] = {}

    def add_late(self, table: pa.Table, detail: Callable[[int | None], str], reason: str = LATE) -> None:
        """Add rows that come too late, or join nothing, with all their columns; `detail(event time)` says why."""
        times = _event_times(table)
        details = [detail(time) for time in times]
        self._add([reason] * len(times), details, times, row_texts(table), origins(table, self._origin))

    def add_row(self, row: pa.Table, where: str, error: Exception, reason: str) -> None:
        """Add a row that a function could not take. Raises `InputError` if the job fails on errors."""
        (text,) = row_texts(row)
        self._fail_if_declared(f"{where}, row {text}", error)
        origin = origins(row, self._origin)
        self._add([reason], [self._counted(where, error, reason)], _event_times(row), [text], origin)

    def add_firing(self, place: FiringPlace, where: str, error: Exception, reason: str, *, given: str = "") -> None:
        """Add a firing that could not be computed, by its partition and times, whole or in one column.

        `given` follows `where` in the detail, and makes no kind of its own: it is another for each row.

        Raises:
            InputError: the job fails on errors.
        """
        keys = self._keys.take(np.array([place.code]))
        columns = {name: keys.column(name) for name in keys.column_names}
        for name, us in place.times_us.items():
            columns[name] = pa.chunked_array([pa.array([us]).cast(TIMESTAMP)])
        text = next(iter(objects(columns)), "{}")
        self._fail_if_declared(f"{where}{given}, {text}", error)
        self._add([reason], [self._counted(where, error, reason, given)], [None], [text], [None])

    @property
    def table(self) -> pa.Table | None:
        """All rows, or None."""
        return pa.concat_tables(self._tables) if self._tables else None

    @property
    def errors(self) -> list[ErrorKind]:
        """What could not be computed: all but late rows."""
        return [*self._errors.values()]

    def _counted(self, where: str, error: Exception, reason: str, given: str = "") -> str:
        """Count an error and return its detail."""
        detail, kind = _detail(f"{where}{given}", error, reason), f"{type(error).__name__} in {where}"
        known = self._errors.get((reason, kind))
        count, first = (1, detail) if known is None else (known.count + 1, known.first)
        self._errors[reason, kind] = ErrorKind(reason=reason, kind=kind, count=count, first=first)
        return detail

    def _fail_if_declared(self, where: str, error: Exception) -> None:
        if self._fails:
            failure = InputError(
                f"{where}, cannot be computed: {_one_line(error)}; fix the function or the row, or use "
                'on_error="quarantine" and start again: this batch is then run once more'
            )
            note_user_frames(failure, error)
            raise failure from error

    def _add(
        self,
        reasons: list[str],
        details: list[str],
        times: list[int | None],
        texts: list[str],
        origins: list[str | None],
    ) -> None:
        details, texts = [*map(as_utf8, details)], [*map(as_utf8, texts)]
        columns = [pa.array(reasons), pa.array(details), pa.array(times, pa.int64()).cast(TIMESTAMP), pa.array(texts)]
        columns.append(pa.array(origins, pa.string()))
        self._tables.append(pa.table(columns, schema=REJECTED_SCHEMA))


def row_texts(table: pa.Table) -> list[str]:
    """Return each row as JSON, with all that the stream has of it, and without the columns that Panekeeper adds."""
    columns = _columns_of(table)
    texts = columns.pop(REST_AS_JSON, None)
    rows = objects(columns) if columns else ["{}"] * table.num_rows
    if texts is None:
        return rows
    return [joined(row, text or "{}") for row, text in zip(rows, texts.to_pylist(), strict=True)]


def origins(table: pa.Table, origin: tuple[str, ...]) -> list[str | None]:
    """Return where each row is from, `topic-partition@offset`, by the columns that tell it; null if it has them not."""
    columns = _columns_of(table)
    if not origin or any(name not in columns for name in origin):
        return [None] * table.num_rows
    rows = zip(*(columns[name].to_pylist() for name in origin), strict=True)
    return [f"{'-'.join(map(str, row[:-1]))}@{row[-1]}" if None not in row else None for row in rows]


def _columns_of(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    """Return the columns of the stream, and `REST_AS_JSON` where some are text."""
    added = (EVENT_TIME, ARRIVAL_TIME, REST)
    names = [name for name in table.column_names if name not in added and not name.startswith(CONDITION)]
    columns = {name: table.column(name) for name in names}
    if REST not in table.column_names:
        return columns
    rest = pa.chunked_array(table.column(REST)).combine_chunks()
    return columns | {field.name: pa.chunked_array([rest.field(field.name)]) for field in rest.type}


def _event_times(table: pa.Table) -> list[int | None]:
    if EVENT_TIME not in table.column_names:
        return [None] * table.num_rows
    times: list[int | None] = table.column(EVENT_TIME).to_pylist()
    return times


def _detail(where: str, error: Exception, reason: str) -> str:
    if reason != USER_ERROR:
        return f"{where}: {error}"
    stack = user_traceback(error)
    return f"{_one_line(error)} in {where}\n{stack[-_LONGEST_STACK:]}"


def _one_line(error: Exception) -> str:
    return " ".join(traceback.format_exception_only(error)[-1].split())
