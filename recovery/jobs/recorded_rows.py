"""The rows that a job has read, read again by the offsets that Spark has logged.

Spark's own recovery reads them: it runs a batch again whose offsets are logged and which is not committed. So a scratch
checkpoint gets the recorded offsets of a batch, and of the one before as a committed one, and a query over the declared
stream runs exactly the rows between the two, once, and is ended in that batch. That holds for any source, and for
whatever the stream does to the rows before `windowed()`. The job may run meanwhile; its checkpoint is only read.

How to use it:

    recorded = recorded_batches(folder, job)              # the folder of an epoch (`opened(...).files`), a DeltaJob
    recorded.first, recorded.last                         # the batches whose rows can be read, each by itself
    recorded.rows(lambda df: df.toArrow(), last=12)       # all rows from the beginning of the source to batch 12
    recorded.rows(lambda df: df.count(), first=12, last=12)         # those of batch 12
    recorded.rows(use, first=5, last=12, port=1, declared=lambda df: df.select("*", "_metadata.file_path"))
    recorded.packed(lambda df: df.toArrow(), 12)          # what the processor got in batch 12, for all key groups

`use` gets an ordinary DataFrame, which is valid until it returns, and what it returns is returned. A whole range is one
micro-batch for Spark: it costs the start of one query, 1 to 3 seconds, and the reading. Rows are in the order in which
the source gives them; that of files depends on the cores of the session, as it does for the job itself.
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from panekeeper.framework.declarations.errors import CheckpointError, DeclarationError, ForeignCheckpoint
from panekeeper.framework.engine.job.declaration_record import with_history
from panekeeper.framework.engine.job.query import end_after_batch, has_ended
from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles
from panekeeper.framework.engine.session.python_workers import prepare_workers
from panekeeper.framework.engine.session.settings import require_recorded_settings, start_with_settings
from panekeeper.framework.engine.session.spark_errors import all_said
from panekeeper.framework.engine.sources.functions import prepare_functions
from panekeeper.framework.engine.sources.inputs import inputs_of, require_same_inputs
from panekeeper.framework.engine.sources.streams import file_system, sources_of
from panekeeper.recovery.errors import RowsGone
from panekeeper.recovery.jobs.checkpoint import no_checkpoint
from panekeeper.state.checkpoint.control_files import control_files_read
from panekeeper.state.checkpoint.folder import (
    COMMITS_FOLDER,
    CONTROL_FOLDER,
    JOB_FILE,
    METADATA_FILE,
    OFFSETS_FOLDER,
    SOURCES_FOLDER,
    CheckpointFolder,
    LocalFolder,
    batch_numbers,
    control_file,
    local_path,
)
from panekeeper.state.checkpoint.job_record import JobRecord, read_record
from panekeeper.state.compatibility import Compatibility, name_change
from panekeeper.state.spark_logs import NO_OFFSET, has_read, log_lines, log_offset, needed_entries, text_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from panekeeper.framework.builder.outputs import DeltaJob
    from panekeeper.framework.engine.flow.pipeline import Pipeline

T = TypeVar("T")

_COMMIT = 'v2\n{"nextBatchWatermarkMs":0}'
"""The commit of what was read before, in a scratch checkpoint. Spark 4.1 wants the version of the state's format."""


_ASKED_AT_ONCE = 16
"""So many files are looked for at a time, where each takes a request."""


def _as_declared(df: DataFrame) -> DataFrame:
    return df


def recorded_batches(folder: CheckpointFolder, job: DeltaJob) -> RecordedBatches:
    """Return the batches of a checkpoint, the folder of its epoch, whose rows can be read; `job` declares its streams.

    Raises:
        CheckpointError: it is no checkpoint, no batch of it was committed, or the streams of the job are others.
        ForeignCheckpoint: it is one of another job.
        IncompatibleCheckpoint: the session has another time zone.
    """
    record = read_record(folder)
    if record is None:
        raise no_checkpoint(folder, JOB_FILE)
    require_job(record, job)
    pipeline = job.pipeline
    files = CheckpointFiles(pipeline.intake.df.sparkSession, folder.place)
    require_recorded_settings(files, record)
    require_same_inputs(files, record.name, inputs_of(port.intake.df for port in pipeline.ports))
    logged = batch_numbers(folder, OFFSETS_FOLDER)
    committed = [number for number in batch_numbers(folder, COMMITS_FOLDER) if number in logged]
    if not committed:
        raise CheckpointError(f"no batch of {folder.root} was committed yet, so there are no rows to read again")
    first = logged[0] + 1 if logged[0] else 0
    return RecordedBatches(folder=folder, record=record, pipeline=pipeline, first=first, last=committed[-1])


def require_job(record: JobRecord, job: DeltaJob) -> None:
    """Raise `ForeignCheckpoint` unless a checkpoint with this record is that of a job."""
    name = name_change(record.name, job.pipeline.intake.name)
    if name.compatibility is not Compatibility.COMPATIBLE:
        raise ForeignCheckpoint(f"{name.why}; give the file that declares job {record.name!r}")


@dataclass(frozen=True, kw_only=True)
class RecordedBatches:
    """The batches of a job whose rows can be read again. Made by `recorded_batches`.

    Attributes:
        folder: the checkpoint, the folder of its epoch.
        record: which job it is of.
        pipeline: what declares the streams; its windows need not be those of the job.
        first: the first batch whose rows can be told from those before.
        last: the last committed batch.
    """

    folder: CheckpointFolder
    record: JobRecord
    pipeline: Pipeline
    first: int
    last: int

    def rows(
        self,
        use: Callable[[DataFrame], T],
        *,
        first: int | None = None,
        last: int,
        port: int = 0,
        declared: Callable[[DataFrame], DataFrame] = _as_declared,
    ) -> T:
        """Return what `use` makes of the rows of a port that some batches have read, with the columns of its stream.

        Args:
            use: gets the rows; the frame is valid until it returns.
            first: the first of the batches; None: from the beginning of the source, however long ago.
            last: the last of the batches.
            port: the number of the input port.
            declared: makes the streaming frame to read of the declared one, as to select `_metadata.file_path`.

        Raises:
            CheckpointError: the offsets of these batches are not kept; the message says from which on they are.
            RowsGone: the source no longer has the rows.
            DeclarationError: Spark keeps state for an operator before the window, and `first` is given.
        """
        with self._scratch(self._sources(port), first, last, {}) as scratch:
            stream = declared(self.pipeline.ports[port].intake.df)
            return self._run(stream, scratch, use, f"batches {first or 0} to {last}")

    def packed(self, use: Callable[[DataFrame], T], batch: int, *, folds: bool = True) -> T:
        """Return what `use` makes of the input of the processor in a batch: packed rows and control rows, by `g`.

        They are those of all ports, as `framework.engine.flow.packing` describes them, and are folded as they were
        unless `folds` says not: that changes no result. `watermark_ms` has the watermark that goes with them.

        Raises:
            CheckpointError: as `rows`; or the control files of the batch are not kept.
            RowsGone: as `rows`.
        """
        control = len(sources_of(port.intake.df for port in self.pipeline.ports))
        moved = self.control_files(batch)
        pipeline = with_history(self.pipeline, self.record)
        with self._scratch(range(control + 1), batch, batch, moved) as scratch:
            files = CheckpointFiles(self._spark, scratch.as_uri())
            return self._run(pipeline.inputs(files, self.record.group_ids, folds=folds), scratch, use, f"batch {batch}")

    def has_read(self, batch: int, port: int) -> bool:
        """Return whether a batch may have read rows of a port: one of its sources went on. Raises `CheckpointError`."""
        self.require_kept(batch)
        sources = self._sources(port)
        after, before = self._offsets(batch)[2:], self._offsets(batch - 1)[2:] if batch else []
        return any((before[source] if before else NO_OFFSET) != after[source] for source in sources)

    def _sources(self, port: int) -> range:
        """Return the numbers of the sources of a port."""
        counts = [len(sources_of([declared_port.intake.df])) for declared_port in self.pipeline.ports]
        end = [*accumulate(counts)][port]
        return range(end - counts[port], end)

    def watermark_ms(self, batch: int) -> int:
        """Return the watermark that Spark had in a batch; 0 before the first one. Raises `CheckpointError`."""
        return int(json.loads(self._offsets(batch)[1]).get("batchWatermarkMs", 0))

    @property
    def _spark(self) -> SparkSession:
        return self.pipeline.intake.df.sparkSession

    def require_kept(self, batch: int) -> None:
        """Raise `CheckpointError` unless the rows of a batch can be read by themselves."""
        if batch > self.last:
            raise CheckpointError(f"batch {batch} of {self.folder.root} is not committed; the last one is {self.last}")
        if batch < self.first:
            raise CheckpointError(
                f"what batch {batch} of {self.folder.root} has read is no longer recorded by itself: Spark keeps the "
                f"offsets of its last batches; give a batch from {self.first} to {self.last}"
            )

    # The scratch checkpoint

    @contextmanager
    def _scratch(self, sources: range, first: int | None, last: int, moved: Mapping[str, bytes]) -> Iterator[Path]:
        """Provide a checkpoint that is about to run the batches of these sources as one.

        `moved` are files to put there, of the folder that the last of the sources reads.
        """
        self.require_kept(last)
        if first is not None:
            self.require_kept(first)
        if first and self.pipeline.intake.stateful_operators():
            raise DeclarationError(
                f"the stream of job {self.record.name!r} has an operator of Spark's with state before windowed(), and "
                "rows alone do not say what it lets through; only all rows from the beginning can be read again"
            )
        before, after = self._offsets(first - 1) if first else None, self._offsets(last)
        with tempfile.TemporaryDirectory(prefix="panekeeper-rows-") as made:
            place = Path(made).resolve()
            scratch = LocalFolder(place)
            for name, content in moved.items():
                scratch.write(name, content)
            starts, ends = list[str](), list[str]()
            for number, source in enumerate(sources):
                start, end = NO_OFFSET if before is None else before[2 + source], after[2 + source]
                log = f"{SOURCES_FOLDER}/{number}"
                if (until := log_offset(end)) is None:
                    for name in self.folder.names(f"{SOURCES_FOLDER}/{source}"):
                        scratch.write(f"{log}/{name}", self.folder.read(f"{SOURCES_FOLDER}/{source}/{name}"))
                else:  # of files: a log of its own with these alone
                    entries = self._found(source, log_offset(start), until)
                    if moved and source == sources[-1]:
                        entries = [{**entry, "path": f"{place.as_uri()}/{_own_name(entry)}"} for entry in entries]
                    else:
                        self._require_there(entry["path"] for entry in entries)
                    start = end = NO_OFFSET
                    if entries:
                        lines = [json.dumps({**entry, "batchId": 0}) for entry in entries]
                        scratch.write(f"{log}/0", "\n".join(["v1", *lines]).encode())
                        end = '{"logOffset":0}'
                starts.append(start)
                ends.append(end)
            scratch.write(METADATA_FILE, json.dumps({"id": str(uuid.uuid4())}).encode())
            if before is not None:
                scratch.write(f"{OFFSETS_FOLDER}/0", "\n".join([*before[:2], *starts]).encode())
                scratch.write(f"{COMMITS_FOLDER}/0", _COMMIT.encode())
            number = 0 if before is None else 1
            scratch.write(f"{OFFSETS_FOLDER}/{number}", "\n".join([*after[:2], *ends]).encode())
            yield place

    def _offsets(self, batch: int) -> list[str]:
        """Return the lines of the offsets of a batch: version, what it pins, and one for each source."""
        try:
            return text_lines(self.folder.read(f"{OFFSETS_FOLDER}/{batch}"))
        except FileNotFoundError:  # removed since: the job goes on
            raise CheckpointError(
                f"the offsets of batch {batch} of {self.folder.root} are no longer kept; Spark keeps those of the last "
                "batches"
            ) from None

    def _found(self, source: int, since: int | None, until: int) -> list[dict[str, Any]]:
        """Return what a file source has found after an entry of its log, up to another one."""
        log = f"{SOURCES_FOLDER}/{source}"
        names = needed_entries(self.folder.names(log))
        lines = (line for name in names for line in log_lines(self.folder, f"{log}/{name}"))
        low = -1 if since is None else since
        return [entry for entry in lines if isinstance(entry, dict) and low < entry.get("batchId", -1) <= until]

    def _require_there(self, files: Iterable[str]) -> None:
        """Raise `RowsGone` if a file is gone: Spark passes over one that it does not find, and says nothing."""
        jvm: Any = self._spark._jvm  # noqa: SLF001 -- Hadoop's file systems are reached through the gateway only

        def is_there(url: str) -> bool:
            if (local := local_path(unquote(url))) is not None:
                return local.exists()
            path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(url))
            return bool(file_system(self._spark, path).exists(path))

        urls = sorted({*files})
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            gone = [url for url, there in zip(urls, pool.map(is_there, urls), strict=True) if not there]
        if gone:
            raise RowsGone(
                f"{len(gone)} of the {len(urls)} files that the job of {self.folder.root} has read then are gone, the "
                f"first one is {unquote(gone[0])}; put them back under their names to read their rows again"
            )

    def control_files(self, batch: int) -> dict[str, bytes]:
        """Return the control files that a batch has read. Raises `CheckpointError` if one is not kept."""
        self.require_kept(batch)
        after = [log_offset(line) for line in self._offsets(batch)[2:]]
        before = [log_offset(line) for line in self._offsets(batch - 1)[2:]] if batch else []
        files = {}
        for number, place in control_files_read(self.folder).items():
            if has_read(after, *place) and not has_read(before, *place):
                name = control_file(number)
                try:
                    files[name] = self.folder.read(name)
                except FileNotFoundError:
                    raise CheckpointError(
                        f"the control file {name} of batch {batch} of {self.folder.root}, with its time, is no longer "
                        "kept; give a later batch"
                    ) from None
        return files

    # The query

    def _run(self, stream: DataFrame, scratch: Path, use: Callable[[DataFrame], T], what: str) -> T:
        """Run the one batch of a scratch checkpoint, and return what `use` makes of it."""
        spark, outcomes, failed = stream.sparkSession, list[T](), list[BaseException]()
        query_id = json.loads((scratch / METADATA_FILE).read_bytes())["id"]

        def run(df: DataFrame, _: int) -> None:
            running = spark.streams.get(query_id)
            assert running is not None  # it is the one that calls
            end_after_batch(running, spark)
            try:
                outcomes.append(use(df))
            except BaseException as error:  # noqa: BLE001 -- it is raised again, outside of the thread of the query
                failed.append(error)

        prepare_workers(spark)
        for port in self.pipeline.ports:
            prepare_functions(port.intake.df)
        writer = stream.writeStream.foreachBatch(run).option("checkpointLocation", scratch.as_uri())
        try:
            query = start_with_settings(writer.start, CheckpointFiles(spark, scratch.as_uri()), self.record.settings)
            while not has_ended(query, 0.1):
                pass
        except Exception as error:  # noqa: BLE001 -- as above
            failed.append(error)
        for reason in failed:
            if not isinstance(reason, PySparkException | Py4JError):
                raise reason
            raise RowsGone(
                f"the rows of {what} of {self.folder.root} cannot be read again; the source must still have them, and "
                f"be in reach\n{all_said(reason)}"
            ) from reason
        if not outcomes:
            raise RowsGone(f"the query that read the rows of {what} of {self.folder.root} again was stopped by others")
        return outcomes[0]


def _own_name(line: Mapping[str, Any]) -> str:
    """Return the name of a control file in its checkpoint, from a line of a source's log."""
    return f"{CONTROL_FOLDER}/{str(line['path']).rpartition('/')[2]}"
