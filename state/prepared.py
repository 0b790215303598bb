"""What a batch writes, recorded before anything has it: `panekeeper/prepared/`.

A batch is several commits, one a table, and a process may be killed or paused between two of them. So when the plan has
run, and its state is stored, all that the batch writes is recorded in one file. From then on the batch is *prepared*:
whoever completes it, this process or the next start, writes what is recorded, and nothing computes it again. So tables
never have parts of a batch from two computations, whatever has changed in between: the code, the order of the rows, the
tables that are declared, the input files.

The file is created exclusively. Of two processes that run the same batch, because one of them was paused until the
other one took over, one gets it, and the other one ends. Its name stays taken until the next batch is prepared, and
after that Spark's log has the commit of the batch, so a process that comes later still finds out.

A start that finds a batch begun and not recorded takes the name for itself before it does anything else (`reserve`):
then it runs the batch, and whoever was paused in the write of the record is the one that ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import pyarrow as pa

from panekeeper.state.checkpoint.folder import (
    COMMITS_FOLDER,
    PREPARED_FOLDER,
    CheckpointFolder,
    batch_numbers,
    damaged,
    prepared_file,
)
from panekeeper.state.checkpoint.job_record import JobRecord, last_batches
from panekeeper.state.codec import decode_header, encode_header
from panekeeper.state.errors import CorruptState
from panekeeper.state.history import computed_by

_RESERVED = b'{"reserved by": '
"""With this begins a file that is no record yet; a record begins with the mark of a frame."""


def _reservation(owner: str) -> bytes:
    return _RESERVED + f'"{owner}"}}'.encode()


@dataclass(frozen=True, kw_only=True)
class TableWrite:
    """One commit to one table. Stored.

    Attributes:
        role: of the table, such as "log".
        path: its folder.
        table: its id; empty if it was not known.
        transaction: the id under which it is committed; the version is the number of the batch.
        after: the newest batch that the table had under this id before; -1 for none.
        rows: which rows of the batch it gets, by their name.
        keys: the columns that say what a row stands for, of which the table keeps the newest; None: rows are appended.
        newer_by: the column whose value is greater in the newer one of two rows; None where rows are appended.
        since: the key that mostly rises, a time; None if there is none.
        replaces: the column with other values of the last key, whose rows the table is to lose; None if there is none.
    """

    role: str
    path: str
    table: str
    transaction: str
    after: int
    rows: str
    keys: Sequence[str] | None = None
    newer_by: str | None = None
    since: str | None = None
    replaces: str | None = None


@dataclass(frozen=True, kw_only=True)
class PreparedBatch:
    """All that a batch writes. Stored.

    Attributes:
        number: of the batch.
        epoch: of its job.
        spark_commit: what Spark's log of commits gets for it.
        writes: the commits to tables.
        rows: name -> rows, or only their columns if they are among the large ones.
        large: name -> folder in the checkpoint with rows that are too many for the driver, packed.
        large_counts: name -> how many rows there are in them.
        large_hashes: name -> hash of these rows, packed.
        job: id of the checkpoint; another one has other state.
        sink_writer: the name under which a sink of the user's own gets the results; None: it gets nothing.
        is_flush: the job is finished with this batch.
        drain_file: number of the control file with the newest drain that it has processed; None if there was none.
        resumed_us: when the run was started whose first batch this is, us since the epoch; None for any other batch.
        tables: role -> what the table has once the batch is complete: its `path`, its `id`, and its newest `batch` in
            this epoch, -1 for none.
        declaration: that by which it was computed, as the job's record has it; None: the one that the record of the
            job says, as nothing else is known of batches that were recorded before this field was there.
    """

    number: int
    epoch: int
    spark_commit: str
    writes: Sequence[TableWrite] = ()
    rows: Mapping[str, pa.Table] = field(default_factory=dict, repr=False)
    large: Mapping[str, str] = field(default_factory=dict)
    large_counts: Mapping[str, int] = field(default_factory=dict)
    large_hashes: Mapping[str, int] = field(default_factory=dict)
    job: str = ""
    sink_writer: str | None = None
    is_flush: bool = False
    drain_file: int | None = None
    resumed_us: int | None = None
    tables: Mapping[str, Any] = field(default_factory=dict, repr=False)
    declaration: Mapping[str, Any] | None = field(default=None, repr=False)

    def computed_by(self, record: JobRecord) -> JobRecord:
        """Return the record of the job with the declaration by which this batch was computed in force up to it.

        It is the same record if that is what it says.
        """
        if self.declaration is None:
            return record
        declaration = computed_by(record.declaration, self.number, self.declaration)
        return record if declaration is record.declaration else replace(record, declaration=declaration)

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        stored = {
            attribute.name: getattr(self, attribute.name)
            for attribute in fields(self)
            if attribute.name not in ("writes", "rows")
        }
        return encode_header(stored | {"writes": [asdict(write) for write in self.writes]}, self.rows)


def reserve(folder: CheckpointFolder, epoch: int, number: int, owner: str) -> bool:
    """Let nobody but this owner of the lease record a batch; return False if it is recorded already.

    `owner` differs between starts. What an earlier owner has reserved is this one's from now on.
    """
    name, wanted = prepared_file(epoch, number), _reservation(owner)
    try:
        folder.write(name, wanted)
    except FileExistsError:
        stored_content = _content(folder, name)
        if not stored_content.startswith(_RESERVED):
            return False
        if stored_content != wanted:
            try:
                folder.swap(name, stored_content, wanted)
            except FileExistsError:  # the earlier owner was faster, and is the last one that can be
                return False
    return True


def prepare(folder: CheckpointFolder, batch: PreparedBatch, owner: str = "") -> None:
    """Record a batch, which decides what it is. Its state is stored, and nothing has its rows yet.

    `owner` is the one for which the batch may be reserved. Raises `FileExistsError` if another process
    has prepared this batch, completed it, or reserved it.
    """
    name, content = prepared_file(batch.epoch, batch.number), batch.to_bytes()
    try:
        folder.write(name, content)
    except FileExistsError:
        stored_content = _content(folder, name)
        if stored_content == _reservation(owner):
            folder.swap(name, stored_content, content)
        elif stored_content != content:  # else a store has repeated a request whose response was lost
            raise
    if max(batch_numbers(folder, COMMITS_FOLDER), default=-1) >= batch.number:
        folder.remove(name)  # the name was free again: another process has completed the batch meanwhile
        raise FileExistsError(name)


def _content(folder: CheckpointFolder, name: str) -> bytes:
    """Return what is in a file that was there just now; nothing if another process has removed it since."""
    try:
        return folder.read(name)
    except FileNotFoundError:
        return b""


def read_prepared(folder: CheckpointFolder, epoch: int, number: int) -> PreparedBatch | None:
    """Return a batch as it was prepared; None if it was not, or not kept. Raises `StateError`."""
    name = prepared_file(epoch, number)
    try:
        if (content := folder.read(name)).startswith(_RESERVED):
            return None
        stored, rows = decode_header(content)
        writes = [TableWrite(**write) for write in stored.pop("writes")]
        return PreparedBatch(**stored, writes=writes, rows=rows)
    except FileNotFoundError:
        return None
    except (CorruptState, TypeError, KeyError) as error:
        raise damaged(folder, name, "it is not what was written") from error


def last_prepared(folder: CheckpointFolder, record: JobRecord, number: int | None) -> PreparedBatch | None:
    """Return the last batch as it was prepared; None if there is none, or it is damaged: who needs it says so."""
    try:
        return None if number is None else read_prepared(folder, record.epoch, number)
    except CorruptState:
        return None


def last_decided(folder: CheckpointFolder, record: JobRecord) -> int | None:
    """Return the last batch that is committed, or will be before a start does anything else; None: there is none."""
    begun, committed = last_batches(folder)
    return begun if begun != committed and is_recorded(folder, record, begun) else committed


def is_recorded(folder: CheckpointFolder, record: JobRecord, number: int | None) -> bool:
    """Return whether a batch is recorded, whole or not: tables may have it."""
    if number is None or not folder.exists(name := prepared_file(record.epoch, number)):
        return False
    return not _content(folder, name).startswith(_RESERVED)


def as_computed(folder: CheckpointFolder, record: JobRecord) -> JobRecord:
    """Return the record of a job with the declaration in force by which its last decided batch was computed.

    A process that was paused may have recorded the batch after another start had recorded a changed declaration, or
    have written its own over that of another start (A2, A9). The record of the batch is exclusive, and so it is right.
    """
    batch = last_prepared(folder, record, last_decided(folder, record))
    return record if batch is None else batch.computed_by(record)


def not_needed(folder: CheckpointFolder, needed: Collection[PreparedBatch]) -> Iterator[str]:
    """Yield the files and folders of prepared batches that are none of these."""
    kept = {prepared_file(batch.epoch, batch.number) for batch in needed}
    kept |= {place for batch in needed for place in batch.large.values()}
    yield from (path for name in folder.names(PREPARED_FOLDER) if (path := f"{PREPARED_FOLDER}/{name}") not in kept)
