"""May a batch that was begun, and that some tables have already, be run again by the code of this start?

A batch is several commits, one a table. A crash between two of them leaves a batch that some tables have and others do
not; it is run again, and the tables that have it skip it. With other code it would be computed otherwise: a row that
was a result may be refused now, and would be in the log and in the quarantine, or in neither. So such a start is
refused. While no table has the batch, it is run again with whatever code there is: a function that raises can be
corrected. A batch that a table has and the checkpoint has not begun is refused with any code (`table_record.py`). Nor
may a start leave out a table that has the batch, or declare another one in its place: both would have it. Of a sink of
the user's own nobody knows whether it has the batch, so it counts as one that has it, also once it is left out.

Its rows must have the order that they had, too. Spark cuts files into pieces by the number of cores, and reads those of
several files by size. Partitions of Kafka it reads as it gets them from a hash table, and after a restart sorted, as it
logs them. So both are recorded, and an unfinished batch is read as it was (`ReadingOrder`).

It reads the files that Spark has logged for it. One that is gone meanwhile Spark leaves out, without an error, and its
rows would be in no table. So that is refused, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from framework.declarations.errors import CheckpointError, IncompatibleCheckpoint
from framework.engine.session.kafka import partition_orders
from framework.engine.session.required_settings import file_splits, recorded_splits, session_settings
from framework.engine.sources.plan import STARTING
from framework.engine.sources.streams import is_there
from state.checkpoint.fingerprint import Difference, compare
from state.checkpoint.folder import batch_numbers, place_of
from state.checkpoint.job_record import read_tables
from state.checkpoint.layout import OFFSETS_FOLDER
from state.checkpoint.run_record import (
    Input,
    last_batches,
    read_code,
    read_order,
    write_code,
    write_inputs,
    write_order,
)
from state.code_digest import PREFIX
from state.log import logger
from state.spark_logs.lines import LogFolder
from state.spark_logs.offsets import NO_OFFSET, offset_lines, source_ends, with_partitions_in_order
from state.spark_logs.source_logs import files_between

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from framework.engine.session.checkpoint_files import CheckpointFiles
    from state.checkpoint.folder import CheckpointFolder
    from state.checkpoint.job_record import JobRecord
    from state.control_log import PrunableFolder

_log = logger("job")
_SINK = "has a sink of its own"
"""Recorded with the code where that is so."""


def begin_with_code(
    folder: LogFolder,
    record: JobRecord,
    code: Mapping[str, Any],
    tables: Mapping[str, str | None],
    *,
    last_transaction: Callable[[str, str], int],
    has_sink: bool,
    accepted: int | None,
) -> None:
    """Record the code of a run before its first batch, unless an unfinished batch needs the code of the last run.

    Args:
        folder: the job's checkpoint.
        record: what the checkpoint says of the job.
        code: what decides the fate of a row, by field.
        tables: role -> path of the job's tables.
        last_transaction: returns the last version that a table has of a transaction id; -1 for none.
        has_sink: the job has a sink of the user's own now.
        accepted: number of the batch that the user wants to be run again with changed code.

    Raises:
        IncompatibleCheckpoint: the code or a table is another one, and a table has a batch that is not finished.
    """
    begun, committed = last_batches(folder)
    if begun is not None and begun not in (committed, accepted):
        _require_tables_of_batch(folder, record, begun, tables, last_transaction)
    stored = read_code(folder)
    had_sink = stored is not None and stored.pop(_SINK, False)
    if (
        begun is not None
        and begun != committed
        and stored is not None
        and (lines := [_line(one) for one in compare(stored, code) if _counts(one, folder, begun)])
    ):
        holders = [
            f"the {role}"
            for role, path in tables.items()
            if path is not None and last_transaction(path, record.transaction(role)) >= begun
        ]
        if not holders and (has_sink or had_sink):
            holders = ["perhaps your own sink"]
        if holders and accepted != begun:
            raise _refusal(folder, record.name, begun, holders, lines)
        if holders:
            _log.warning("batch %d of job %s is run again with changed code: %s", begun, record.name, "; ".join(lines))
    had_sink = had_sink and begun != committed  # as long as that batch is not finished
    write_code(folder, {**code, _SINK: True} if has_sink or had_sink else code)


def _require_tables_of_batch(
    folder: CheckpointFolder,
    record: JobRecord,
    batch: int,
    tables: Mapping[str, str | None],
    last_transaction: Callable[[str, str], int],
) -> None:
    now = {role: place_of(path) for role, path in tables.items() if path is not None}
    left = {role: path for role, path in read_tables(folder).items() if now.get(role) != place_of(path)}
    have_it = {role for role, path in left.items() if last_transaction(path, record.transaction(role)) >= batch}
    holders = [f"the {role} {left[role]}" for role in sorted(have_it)]
    if holders:
        raise IncompatibleCheckpoint(
            f"batch {batch} of job {record.name!r} in {folder.root} is not finished, but {', '.join(holders)} has it "
            "already, and this start declares another one, or none: rows would be in both; or, by other code, twice or "
            'nowhere. Start the program as it was with trigger="available_now", which finishes the batch; then start '
            f"this one. If that cannot be, start(..., accept_changed_code={batch}) writes the batch to the tables of "
            "now, too"
        )


def require_files_of_unfinished_batch(files: CheckpointFiles, accepted: int | None) -> None:
    """Check that the files of a batch that is run again are still there.

    Args:
        files: the job's checkpoint.
        accepted: number of the batch that the user wants to be run again with what there is.

    Raises:
        CheckpointError: some are gone.
    """
    begun, committed = last_batches(files)
    if begun is None or begun in (committed, accepted):
        return
    gone = [url for url in files_of_batch(files.local_folder() or files, begun) if not is_there(files.spark, url)]
    if gone:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise CheckpointError(
            f"batch {begun} of {files.root} is not finished, and files that it reads are gone: {gone[0]}{more}. "
            "Without them their rows would be in no table, and results that a table has already would not fit. Put "
            f"them back, under the same names; if they are lost, start(..., accept_changed_code={begun}) runs it "
            "without them"
        )


def files_of_batch(folder: LogFolder, batch: int) -> Iterator[str]:
    """Yield the URL of each file that a batch reads; but for those of the control stream, its last source."""
    if batch and batch - 1 not in batch_numbers(folder, OFFSETS_FOLDER):
        return  # where it begins is not known
    ends, before = source_ends(folder, batch), source_ends(folder, batch - 1) if batch else []
    for source, end in enumerate(ends[:-1]):
        if end is not None:
            after = before[source] if source < len(before) else None
            yield from files_between(folder, source, -1 if after is None else after, end)


class ReadingOrder:
    """In which order the rows of a job's batches are read.

    Args:
        folder: the job's checkpoint.
        spark: the session of its streams, whose settings count whenever a batch is planned.
        from_files: whether a stream reads files.
        from_kafka: whether one reads topics of Kafka.
        inputs: what its sources read.
    """

    def __init__(
        self,
        folder: PrunableFolder,
        spark: SparkSession,
        *,
        from_files: bool,
        from_kafka: bool,
        inputs: Sequence[Input] = (),
    ) -> None:
        self._folder = folder
        self._spark = spark
        self._inputs: Sequence[Input] | None = inputs
        self._from_files, self._from_kafka = from_files, from_kafka
        self._recorded = read_order(folder)
        self._unfinished: int | None = None

    @contextmanager
    def as_recorded(self) -> Iterator[None]:
        """Read an unfinished batch in the order that it had. To be entered until a query has planned that batch."""
        begun, committed = last_batches(self._folder)
        self._unfinished = None if begun == committed else begun
        if begun is None and self._inputs is not None:  # a kill may come before the first batch runs
            write_inputs(self._folder, self._inputs)
        recorded = {} if self._unfinished is None or self._recorded is None else self._recorded
        if partitions := recorded.get("partitions"):
            name = f"{OFFSETS_FOLDER}/{begun}"
            before = self._folder.read(name)
            if (content := with_partitions_in_order(before, partitions)) != before:
                self._folder.write(name, content, replace=True)
        with session_settings(self._spark, recorded_splits(recorded.get("files", {}))):
            yield

    def record(self, batch: int, query: StreamingQuery) -> None:
        """Record the order of a batch, if it has changed. Called once the batch is planned, before it runs."""
        if self._inputs is not None:  # Spark has taken them: it plans no batch of others
            write_inputs(self._folder, self._inputs)
            self._inputs = None
        if batch == self._unfinished:
            return
        order = {
            "files": file_splits(self._spark) if self._from_files else {},
            "partitions": partition_orders(query) if self._from_kafka else {},
        }
        if order != self._recorded:
            write_order(self._folder, order)
            self._recorded = order


def _refusal(
    folder: CheckpointFolder, name: str, batch: int, holders: list[str], lines: list[str]
) -> IncompatibleCheckpoint:
    differences = "\n".join(f"  {line}" for line in lines)
    have = ", ".join(holders)
    return IncompatibleCheckpoint(
        f"batch {batch} of job {name!r} in {folder.root} is not finished, but {have} has it already, and the code has "
        f"changed since:\n{differences}\n"
        "Computed by other code, the rest of the batch would not fit: rows could be missing, or be there twice. Start "
        'the program as it was with trigger="available_now", which finishes the batch; then start this one. If the old '
        f"program is gone, start(..., accept_changed_code={batch}) finishes the batch with the code as it is: what "
        f"{have} has of it stays, and rows whose fate has changed are missing or doubled"
    )


def _counts(difference: Difference, folder: LogFolder, batch: int) -> bool:
    """Return whether a difference may change the rows of a batch: where a source begins only counts until it has."""
    if not difference.field.endswith(STARTING):
        return True
    return batch == 0 or NO_OFFSET in offset_lines(folder, batch - 1)


def _line(difference: Difference) -> str:
    values = (difference.old, difference.new)
    if all(isinstance(one, str) and one.startswith(PREFIX) for one in values):
        return f"{difference.field}: changed"
    return str(difference)
