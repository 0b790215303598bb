"""What a micro-batch of one key group does, counted, so that neither time nor the load of the machine matters."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import CodeType
from typing import Any

import pyarrow as pa

import panekeeper
from benchmarks.data import COLUMNS, ROWS
from panekeeper.framework.core.group_batch import GroupBatch
from panekeeper.framework.core.packed_rows import PackedRow
from panekeeper.framework.core.steps import BatchOutcome
from panekeeper.framework.testing.run import declared_job
from panekeeper.framework.testing.run_in_memory import JobOfScript
from panekeeper.framework.testing.scripted_job import ScriptBatch, ScriptedJob
from panekeeper.state.store import MemoryStore

_OURS = str(Path(panekeeper.__file__).parent)


@dataclass(frozen=True)
class Work:
    """What a batch does.

    Attributes:
        calls: of Python functions of Panekeeper's; some hundred of them check the rows in the place of Spark.
        library_calls: of functions of others, made by these: numpy's, Arrow's, Python's own. Those are not among them
            that Python does not tell a profiler: functions of numpy on each element, and some methods of Arrow.
        store_calls: reads, writes and removals of segments.
        stored_bytes: the bytes of these reads and writes.
        arrow_bytes: what Arrow allocates, freed or not.
    """

    calls: int
    library_calls: int
    store_calls: int
    stored_bytes: int
    arrow_bytes: int

    def above(self, bound: Work) -> dict[str, tuple[int, int]]:
        """Return what is above a bound, with it, by name."""
        pairs = {one.name: (getattr(self, one.name), getattr(bound, one.name)) for one in fields(Work)}
        return {name: (value, most) for name, (value, most) in pairs.items() if value > most}


class CountingStore(MemoryStore):
    """A store that counts its calls, and the bytes that are read and written."""

    calls = stored_bytes = 0

    def read_header(self) -> bytes | None:
        """Count it."""
        value = super().read_header()
        self._count(value)
        return value

    def write_header(self, value: bytes) -> None:
        """Count it."""
        self._count(value)
        super().write_header(value)

    def find(self, kind: str, slot: int, seq: int) -> bytes | None:
        """Count it."""
        value = super().find(kind, slot, seq)
        self._count(value)
        return value

    def write(self, kind: str, slot: int, seq: int, value: bytes) -> None:
        """Count it."""
        self._count(value)
        super().write(kind, slot, seq, value)

    def remove(self, kind: str, slot: int, seq: int) -> None:
        """Count it."""
        self._count(None)
        super().remove(kind, slot, seq)

    def _count(self, value: bytes | None) -> None:
        self.calls += 1
        self.stored_bytes += len(value or b"")


class _CountedJob(JobOfScript):
    """A job in memory that counts what it does from the rows of a batch to its outcome: folding, packing, the core."""

    def __init__(self, script: ScriptedJob) -> None:
        super().__init__(script)
        self.groups[0].store = CountingStore()
        self.calls = {True: 0, False: 0}
        self.arrow_bytes = 0

    def work(self) -> Work:
        """Return what has been counted since this was called last."""
        (store,) = self.stores.values()
        assert isinstance(store, CountingStore)
        found = Work(
            calls=self.calls[True],
            library_calls=self.calls[False],
            store_calls=store.calls,
            stored_bytes=store.stored_bytes,
            arrow_bytes=self.arrow_bytes,
        )
        self.calls, self.arrow_bytes, store.calls, store.stored_bytes = {True: 0, False: 0}, 0, 0, 0
        return found

    def _check(self, port: int, rows: pa.Table, now_us: int) -> pa.Table:
        with self._counted():
            return super()._check(port, rows, now_us)

    def _pack(self, port: int, rows: pa.Table, watermark: int | None) -> Iterator[PackedRow]:
        with self._counted():
            packed = list(super()._pack(port, rows, watermark))
        yield from packed

    def run_group(self, group: int, batch: GroupBatch) -> BatchOutcome:
        """Run a batch, and count."""
        with self._counted():
            return super().run_group(group, batch)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        pool, ours = pa.default_memory_pool(), dict[CodeType, bool]()

        def is_ours(code: CodeType) -> bool:
            if code not in ours:
                ours[code] = code.co_filename.startswith(_OURS)
            return ours[code]

        def count(frame: Any, event: str, _arg: Any) -> None:
            if event == "call" and is_ours(frame.f_code):
                self.calls[True] += 1
            elif event in ("call", "c_call") and is_ours((frame.f_back if event == "call" else frame).f_code):
                self.calls[False] += 1

        before = pool.total_bytes_allocated()
        sys.setprofile(count)
        try:
            yield
        finally:
            sys.setprofile(None)
            self.arrow_bytes += pool.total_bytes_allocated() - before


def work_of_a_batch(*, rows: int, keys: int, batches: int = 3, **declared: Any) -> Work:
    """Play batches of the rows of the benchmarks, 100 seconds each, and return what is done in the last one.

    Args:
        rows: of one batch, and of each input.
        keys: how many keys they have.
        batches: how many there are.
        declared: the window or inputs, and the further arguments of `panekeeper.testing.run`.
    """
    job = declared_job(schema=COLUMNS.lower(), partition_by="key", **declared)
    tables = [ROWS.table(number, rows, keys) for number in range(batches)]
    played = (
        ScriptBatch(number=number, tables=(table,) * len(job.ports), now_us=number)
        for number, table in enumerate(tables)
    )
    counted = _CountedJob(replace(job, batches=tuple(played)))
    return [counted.work() for _ in counted.batches()][-1]
