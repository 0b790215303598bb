"""How a batch that was begun is run again: in the order that it had, from the files that it had.

Whether it may be, by the code and to the tables of a start, is for `upgrade/changed_code.py` to say.

Its rows must have the order that they had. Spark cuts files into pieces by the number of cores, and reads those of
several files by size. Partitions of Kafka it reads as it gets them from a hash table, and after a restart sorted, as it
logs them. So both are recorded, and an unfinished batch is read as it was (`ReadingOrder`).

It reads the files that Spark has logged for it. One that is gone meanwhile Spark leaves out, without an error, and its
rows would be in no table. So that is refused, too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from framework.declarations.errors import CheckpointError
from framework.engine.session.kafka import partition_orders
from framework.engine.session.required_settings import file_splits, recorded_splits, session_settings
from framework.engine.sources.streams import is_there
from state.checkpoint.folder import batch_numbers
from state.checkpoint.layout import OFFSETS_FOLDER
from state.checkpoint.run_record import Input, last_batches, read_order, write_inputs, write_order
from state.spark_logs.lines import LogFolder
from state.spark_logs.offsets import source_ends, with_partitions_in_order
from state.spark_logs.source_logs import files_between

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from framework.engine.session.checkpoint_files import CheckpointFiles
    from state.control_log import PrunableFolder


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


_one_start = threading.RLock()


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
        self._planned: Mapping[str, str | None] | None = None

    @contextmanager
    def as_recorded(self) -> Iterator[None]:
        """Read an unfinished batch in the order that it had. To be entered until a query has planned that batch.

        One start of this process after the other: jobs may share a session, and so its settings.
        """
        with _one_start:
            yield from self._as_recorded()

    def _as_recorded(self) -> Iterator[None]:
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
            self._planned = file_splits(self._spark) if self._from_files else {}
            yield

    def record(self, batch: int, query: StreamingQuery) -> None:
        """Record the order of a batch, if it has changed. Called once the batch is planned, before it runs."""
        if self._inputs is not None:  # Spark has taken them: it plans no batch of others
            write_inputs(self._folder, self._inputs)
            self._inputs = None
        planned, self._planned = self._planned, None  # another start may have set others since
        if batch == self._unfinished:
            return
        if planned is None:
            planned = file_splits(self._spark) if self._from_files else {}
        order = {
            "files": planned,
            "partitions": partition_orders(query) if self._from_kafka else {},
        }
        if order != self._recorded:
            write_order(self._folder, order)
            self._recorded = order
