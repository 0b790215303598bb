"""Packing: Arrow batches of rows become binary segments, a few for each key group, before the shuffle.

This file decides which rows are in a segment, and at which places segments are (`core/packed_rows.py`). It has no
notion of windows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.framework.core import stream_clock
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, REJECTED_SCHEMA, REST
from panekeeper.framework.core.packed_rows import PACKED, PARTIAL_KIND, PROGRESS_KIND, REFUSED_KIND, to_segment
from panekeeper.framework.core.panes.folding import FoldedRows, PaneFolding
from panekeeper.framework.core.sessions.folding import SessionFolding
from panekeeper.framework.core.shared_folding import SharedFolding
from panekeeper.framework.core.stable_order import stable_order
from panekeeper.framework.declarations.errors import InputError
from panekeeper.framework.engine.session.python_workers import freeze_gc
from panekeeper.state.checkpoint.folder import METADATA_FILE, OFFSETS_FOLDER, local_path
from panekeeper.state.codec import with_columns
from panekeeper.state.records import NO_WATERMARK

PREFIX = "_pk_"
RESERVED = ("_t", "_at", "_seq", "_row", "_slice", "_piece", REST)
"""Names that columns of the user's cannot have, because segments and stored rows carry columns so named."""

KEY_GROUP_COLUMN = "_pk_group"
"""Number of the row's key group, 0..n-1."""
EVENT_TIME_COLUMN = "_pk_time"
"""Event time of a good row; null for a rejected one, so that it cannot move the watermark."""
ARRIVAL_TIME_COLUMN = "_pk_arrived"
"""Arrival time of the row, us; only there if the windows need it."""
SOURCE_PARTITION_COLUMN = "_pk_source"
"""The partition of the source that the row is from, as text; only there if each has a watermark of its own."""
REST_COLUMN = "_pk_rest"
"""The columns that the job does not read, as a struct; only there if a row may get into the quarantine later."""
REJECT_COLUMN = "_pk_reject"
"""Why the row is rejected, as a JSON object with the fields of `REJECTED`, its time in us; null for a good row."""
MARK = "_mark"
"""Null for data; else one of `MARK_KINDS`: a mark for every group, at this place in the order."""
MARK_VALUE = "_mark_value"
"""The time of a mark that carries one, us."""
MARK_TEXT = "_mark_text"
"""What else a mark says: of "evict", the partition, as a JSON list of its columns' values."""

MARKS = (MARK, MARK_VALUE, MARK_TEXT)

_GATHERED_ROWS, _GATHERED_BYTES = 2**18, 2**25
"""Input rows are gathered up to one of these before they are split into segments. Spark's Arrow batches are small,
because it does not limit them by bytes (`framework/engine/session/session.py`); any limits give the same rows."""
_SEGMENT_BYTES = 2**17
"""A longer segment is split. On its way to the state, Spark puts `maxRecordsPerBatch` of them into one Arrow batch,
which must stay far below 2 GB: the batch is not limited by bytes (`framework/engine/session/session.py`)."""

FILE_ORDER_COLUMN = "_pk_lot"
"""The input file and the part of it a row comes from, in a form that sorts by age; only where files end in marks."""
MARK_AFTER_ROW = "after"
"""A mark that follows its row instead of standing in its place."""

BATCH_ID = "streaming.sql.batchId"
"""What Spark sets for every task of a micro-batch: its number."""
_QUERY_ID = "sql.streaming.queryId"  # for every task of a streaming query
_OFFSET_LOG = "v1"

MARK_KINDS = {name: name for name in ("watermark", "resume", "tick", "clock", "evict", "flush")} | {
    "window": "mark:window",
    MARK_AFTER_ROW: "mark:window",
    "final": "mark:final",
}


@dataclass(frozen=True, kw_only=True)
class Packer:
    """Packs the batches of one input partition. Picklable; called by Spark's `mapInArrow`.

    Attributes:
        group_ids: representative id of each key group.
        carried_columns: the user's columns that travel, with the types they are cast to.
        time: the column that segments carry beside the user's: `EVENT_TIME`, `AT`, or None.
        has_arrival_times: whether they carry the arrival time beside the event time.
        marked: whether the input has the mark columns.
        has_batch_time: whether rows arrive at the time of their batch, and window marks with them.
        by_file: whether the input has the lot column, and the end of each file is a mark.
        fail_on_error: raise `InputError` for a rejected row instead of passing it on.
        port: number of the input port.
        has_clock: whether the arrival times of the rows are the clock of all groups.
        sorted_later: whether a group's rows are put in the order of their arrival times.
        watermark_delay_us: delay of the port's watermark, if each group needs the progress of event time; else None.
        tells_when: whether that progress comes with the time of the batch.
        by_partition: whether that progress is told for each partition of the source.
        folding: folds rows whose windows need no more than partial results; None if rows are to stay rows.
        batch_watermark: reads the watermark of the batch: rows are folded at it, and those after it cannot be late.
        rest: which rows bring the columns that the job does not read: "late", those that may be late; "all"; or none.
    """

    group_ids: tuple[int, ...]
    carried_columns: pa.Schema
    time: str | None
    has_arrival_times: bool = False
    marked: bool = False
    has_batch_time: bool = False
    by_file: bool = False
    fail_on_error: bool = False
    port: int = 0
    has_clock: bool = False
    sorted_later: bool = False
    watermark_delay_us: int | None = None
    tells_when: bool = False
    by_partition: bool = False
    folding: PaneFolding | SessionFolding | SharedFolding | None = None
    batch_watermark: BatchWatermark | None = None
    rest: Literal["late", "all"] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack one input partition; the position runs on over its batches."""
        from pyspark import TaskContext

        freeze_gc()
        context = TaskContext.get()
        part = context.partitionId() if context else 0
        watermark = self.batch_watermark.read(context) if self.batch_watermark else None
        yield from self.packed(batches, part=part, watermark=watermark)

    def packed(
        self, batches: Iterable[pa.RecordBatch], *, part: int, watermark: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Pack one input partition; rows may be folded if the watermark of the batch is given."""
        at, latest, arrived = 0, dict[str, int](), None
        for table in _gather(batches):
            yield self.pack(table, part=part, at=at, watermark=watermark)
            at += table.num_rows
            if self.watermark_delay_us is not None:
                for source, us in _latest(table, by_partition=self.by_partition):
                    latest[source] = max(us, latest.get(source, us))
                arrived = int(table.column(ARRIVAL_TIME_COLUMN)[0].as_py()) if self.tells_when else None
        if latest:
            yield self.pack_progress(latest, part=part, at=at, arrived=arrived)

    def pack_progress(
        self, latest: Mapping[str, int], *, part: int, at: int, arrived: int | None = None
    ) -> pa.RecordBatch:
        """Return the packed rows that carry the progress of event time in an input partition to every group.

        `latest` has the greatest event time, us, of each partition of the source; if they count as one, of "".
        """
        packed = _PackedRows(part=part, port=self.port)
        reached = {source: us - (self.watermark_delay_us or 0) for source, us in latest.items()}
        more: dict[str, Any] = {} if arrived is None else {"at": arrived}
        more |= {"parts": reached} if self.by_partition else {}
        packed.mark(self.group_ids, PROGRESS_KIND, at, max(reached.values()), json.dumps(more) if more else None)
        return packed.batch()

    def pack(self, table: pa.Table, *, part: int, at: int, watermark: int | None = None) -> pa.RecordBatch:
        """Return the packed rows of input rows, the first of which is number `at` of its input partition.

        Rows may be folded if the watermark of the batch is given.
        """
        packed = _PackedRows(part=part, port=self.port, watermark=watermark)
        if self.by_file:
            self._pack_files(table, at, packed)
            return packed.batch()
        start = 0
        for place, kind, value, text in [*self._marks(table), (table.num_rows, "", 0, None)]:
            end = place + 1 if kind == MARK_AFTER_ROW else place
            if end > start:
                self._pack_rows(table.slice(start, end - start), at + start, packed)
            if kind:
                packed.mark(self.group_ids, MARK_KINDS[kind], at + place, value, text)
            start = place + 1
        return packed.batch()

    def _pack_files(self, table: pa.Table, at: int, packed: _PackedRows) -> None:
        """Pack the rows file by file. Each input partition that read of a file marks its end; `to_steps` keeps one."""
        orders = table.column(FILE_ORDER_COLUMN).to_pylist()
        starts = [0, *(n for n in range(1, len(orders)) if orders[n] != orders[n - 1]), len(orders)]
        for low, high in pairwise(starts):
            packed.file_order = orders[low]
            self._pack_rows(table.slice(low, high - low), at + low, packed)
            packed.file_order = end_of_file(orders[low])
            packed.mark(self.group_ids, MARK_KINDS["window"], at + high, self._batch_time(table))

    def _marks(self, table: pa.Table) -> list[tuple[int, str, int, str | None]]:
        if not self.marked:
            return []
        kinds, batch_time = table.column(MARK), self._batch_time(table)
        places = np.flatnonzero(pc.is_valid(kinds).to_numpy(zero_copy_only=False))
        marks = table.select([MARK, MARK_VALUE, MARK_TEXT]).take(pa.array(places)).to_pylist()
        return [
            (int(place), mark[MARK], mark[MARK_VALUE] or batch_time, mark[MARK_TEXT])
            for place, mark in zip(places, marks, strict=True)
        ]

    def _batch_time(self, table: pa.Table) -> int:
        return int(table.column(ARRIVAL_TIME_COLUMN)[0].as_py()) if self.has_batch_time and table.num_rows else 0

    def _pack_rows(self, table: pa.Table, pos: int, packed: _PackedRows) -> None:
        groups = table.column(KEY_GROUP_COLUMN).to_numpy()
        reject = table.column(REJECT_COLUMN)
        if reject.null_count == table.num_rows:
            self._pack_good(table, groups, pos, pos + table.num_rows - 1, packed)
            return
        bad = pc.is_valid(reject).to_numpy(zero_copy_only=False)
        bad_rows = [json.loads(text) for text in reject.filter(pa.array(bad)).to_pylist()]  # null fields are omitted
        columns = {
            field.name: pa.array([row.get(field.name) for row in bad_rows], field.type) for field in REJECTED_SCHEMA
        }
        rejected = pa.table(columns, schema=REJECTED_SCHEMA)
        if self.fail_on_error:
            first = rejected.slice(0, 1).to_pylist()[0]
            detail = f" ({first['detail']})" if first["detail"] else ""
            raise InputError(
                f"{len(bad_rows)} bad row(s), the first one {first['reason']}{detail}: {first['row']}; "
                'fix the input, or use on_error="quarantine" and start again: this batch is then run once more'
            )
        self._pack_segments(rejected, groups[bad], REFUSED_KIND, pos, packed)
        self._pack_good(table.filter(pa.array(~bad)), groups[~bad], pos, pos + len(bad) - 1, packed)

    def _pack_good(self, table: pa.Table, groups: np.ndarray, pos: int, last: int, packed: _PackedRows) -> None:
        """Pack good rows: folded, if they may be and it is worth it. `last` is the position of the last input row."""
        rows, folded = self._select_carried(table), None
        if self.has_clock and rows.num_rows:
            rows, times = stream_clock.pass_in_order(rows, sorted_later=self.sorted_later)
            packed.mark(self.group_ids, stream_clock.ARRIVED_KIND, last, times.latest, times.body)
        if self.folding is not None and packed.watermark is not None:
            folded = _folded(self.folding, rows, packed.watermark)
        if self.rest is not None:
            rows = rows.append_column(REST, table.column(REST_COLUMN))
        if folded is not None:
            parts, rest = folded
            for number, (window, part) in enumerate(parts.items()):
                kind = f"{PARTIAL_KIND}:{window}" if window else PARTIAL_KIND
                self._pack_segments(part.table, groups[part.first], kind, pos, packed, part.numbers * (number == 0))
            if not len(rest):
                return
            rows, groups = rows.take(pa.array(rest)), groups[rest]
        may_be_late = None
        if self.rest == "late" and packed.watermark is not None:
            may_be_late = rows.column(EVENT_TIME).to_numpy() < packed.watermark
        self._pack_segments(rows, groups, "rows", pos, packed, with_rest=may_be_late)

    def _pack_segments(
        self,
        table: pa.Table,
        groups: np.ndarray,
        kind: str,
        pos: int,
        packed: _PackedRows,
        numbers: np.ndarray | None = None,
        with_rest: np.ndarray | None = None,
    ) -> None:
        """Cut a table by groups.

        `numbers` says how many rows each of its rows stands for, one if not given; `with_rest` which rows need `REST`:
        a segment without such a row goes without it.
        """
        order = stable_order(groups)  # arrival order stays inside each group
        table = table.combine_chunks().take(pa.array(order))
        most = max(1, _SEGMENT_BYTES * table.num_rows // max(table.nbytes, 1))
        bounds = np.searchsorted(groups[order], np.arange(len(self.group_ids) + 1)).tolist()
        for group, first, end in zip(self.group_ids, bounds, bounds[1:], strict=False):
            for low in range(first, end, most):
                rows = min(most, end - low)
                place = pos if low == first else pos + int(order[low])
                n = rows if numbers is None else int(numbers[order[low : low + rows]].sum())
                segment = table.slice(low, rows)
                if with_rest is not None and not with_rest[order[low : low + rows]].any():
                    segment = segment.drop_columns([REST])
                packed.add(group, kind, place, n, to_segment(segment))

    def _select_carried(self, table: pa.Table) -> pa.Table:
        carried = with_columns(table, self.carried_columns)
        if self.time is None:
            return carried
        times = {self.time: EVENT_TIME_COLUMN if self.time == EVENT_TIME else ARRIVAL_TIME_COLUMN}
        if self.has_arrival_times:
            times[ARRIVAL_TIME] = ARRIVAL_TIME_COLUMN
        for name, when in times.items():
            carried = carried.append_column(pa.field(name, pa.int64()), table.column(when).cast(pa.int64()))
        return carried


def _folded(
    folding: PaneFolding | SessionFolding | SharedFolding, rows: pa.Table, watermark: int
) -> tuple[Mapping[str, FoldedRows], np.ndarray] | None:
    """Return what was folded, by window, and the positions of the rows that were not; None if none were."""
    if isinstance(folding, SharedFolding):
        return folding.fold(rows, watermark)
    folded = folding.fold(rows, watermark)
    return None if folded is None else ({"": folded}, folded.rest)


@dataclass
class _PackedRows:
    """The packed rows of one batch, as they grow."""

    part: int
    port: int
    watermark: int | None = None
    file_order: str | None = None
    rows: list[tuple[int, str, str | None, int, int, bytes | None]] = field(default_factory=list)

    def add(self, group: int, kind: str, pos: int, n: int, body: bytes | None) -> None:
        self.rows.append((group, kind, self.file_order, pos, n, body))

    def mark(self, groups: tuple[int, ...], kind: str, pos: int, value: int = 0, text: str | None = None) -> None:
        for group in groups:
            self.add(group, kind, pos, value, None if text is None else text.encode())

    def batch(self) -> pa.RecordBatch:
        group, kind, lot, pos, n, body = zip(*self.rows, strict=True) if self.rows else ((),) * 6
        columns = [group, [self.port] * len(group), kind, lot, [self.part] * len(group), pos, n, body]
        arrays = [pa.array(values, f.type) for values, f in zip(columns, PACKED, strict=True)]
        return pa.record_batch(arrays, schema=PACKED)


def _latest(table: pa.Table, *, by_partition: bool) -> Iterator[tuple[str, int]]:
    """Yield the greatest event time of good rows, us, by the partition of the source, or of all; none without one."""
    times = table.column(EVENT_TIME_COLUMN).cast(pa.int64())
    if not by_partition:
        greatest = {"": pc.max(times).as_py()}
    else:
        rows = pa.table([table.column(SOURCE_PARTITION_COLUMN), times], names=["source", "time"])
        latest = rows.group_by("source").aggregate([("time", "max")])
        greatest = dict(zip(latest.column("source").to_pylist(), latest.column("time_max").to_pylist(), strict=True))
    yield from ((source, us) for source, us in greatest.items() if us is not None)


def end_of_file(file_order: str) -> str:
    """Return the lot of the mark behind the last part of a file.

    >>> end_of_file("000123 a.json 000000") > "000123 a.json 999999"
    True
    """
    return file_order.rpartition(" ")[0] + " ~"


def _gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Return the rows of consecutive Arrow batches together: as many as are worth sorting by group at once."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GATHERED_ROWS or size >= _GATHERED_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


@dataclass(frozen=True)
class BatchWatermark:
    """Reads the watermark of the running batch. Picklable; called in Python workers.

    Spark writes the watermark to the offset log before the batch begins; a run of the same batch after a stop has the
    same one. Only checkpoints on a file system of this machine are read: where no watermark is found, rows go to their
    key groups as they are, which costs time and changes nothing else.
    """

    folder: Path

    @classmethod
    def of(cls, checkpoint: str) -> BatchWatermark | None:
        """Return the reader for a checkpoint; None if it is on no file system of this machine."""
        folder = local_path(checkpoint)
        return None if folder is None else cls(folder)

    def read(self, context: Any) -> int | None:
        """Return the watermark in us, `NO_WATERMARK` before the first; None if it cannot be found out.

        The checkpoint must be that of the task's query: another one's watermark says nothing about late rows.
        """
        if context is None:
            return None
        try:
            owner = json.loads((self.folder / METADATA_FILE).read_text(encoding="utf-8"))["id"]
            batch = self.folder / OFFSETS_FOLDER / str(context.getLocalProperty(BATCH_ID))
            version, watermark, *_ = batch.read_text(encoding="utf-8").splitlines()
            if owner != context.getLocalProperty(_QUERY_ID) or version != _OFFSET_LOG:
                return None
            milliseconds = int(json.loads(watermark)["batchWatermarkMs"])
        except (OSError, ValueError, LookupError, TypeError):
            return None
        return milliseconds * 1000 if milliseconds > 0 else NO_WATERMARK
