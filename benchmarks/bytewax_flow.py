"""Bytewax as a contender: the same windows as a stateful step of a dataflow, in this process, on two workers.

Bytewax has no count, delta or counted-trigger windows of its own; a stateful step is its documented way to write
them. Without recovery it does not write its state, where Panekeeper and Spark write theirs; with it, it writes it once
a second.

Bytewax is an optional package; it is imported when it is first used.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.contenders import RunEnvironment, TimedBatch
from benchmarks.data import Input

WORKERS = 2
ROWS_AT_A_TIME = 20_000
_WITHOUT_RECOVERY, _WITH_RECOVERY = timedelta(seconds=10), timedelta(seconds=1)
"""Lengths of an epoch, at whose end the state is written if there is a recovery."""

Row = tuple[int, float]
"""Arrival time (us) and value."""
Fired = tuple[int, float, int]
"""Arrival time of the row that fired (us), greatest value, number of rows."""
Step = Callable[[Any, Row], tuple[Any, list[Fired]]]


def installed() -> bool:
    """Return whether Bytewax can be imported."""
    return find_spec("bytewax") is not None


def sliding_count(size: int, every: int) -> Step:
    """Return a step for the newest `size` rows, at every `every`-th."""

    def step(state: Any, row: Row) -> tuple[Any, list[Fired]]:
        kept, since = state or (deque[float](maxlen=size), 0)
        kept.append(row[1])
        if since + 1 < every:
            return (kept, since + 1), []
        return (kept, 0), [(row[0], max(kept), len(kept))]

    return step


def sliding_time(seconds: int, every: int) -> Step:
    """Return a step for the rows of the last `seconds`, at every `every`-th row."""
    age = seconds * 1_000_000 + 1000  # evicted a millisecond later, as by Panekeeper

    def step(state: Any, row: Row) -> tuple[Any, list[Fired]]:
        kept, since = state or (deque[Row](), 0)
        kept.append(row)
        if since + 1 < every:
            return (kept, since + 1), []
        while kept[0][0] + age <= row[0]:
            kept.popleft()
        return (kept, 0), [(row[0], max(value for _, value in kept), len(kept))]

    return step


def tumbling_count(size: int) -> Step:
    """Return a step for every `size` rows."""

    def step(state: Any, row: Row) -> tuple[Any, list[Fired]]:
        n, highest = state or (0, row[1])
        n, highest = n + 1, max(highest, row[1])
        return ((n, highest), []) if n < size else (None, [(row[0], highest, n)])

    return step


def tumbling_delta(seconds: int) -> Step:
    """Return a step for the rows that came at most `seconds` after the first of them."""
    size = seconds * 1_000_000

    def step(state: Any, row: Row) -> tuple[Any, list[Fired]]:
        if state is None:
            return (row[0], 1, row[1]), []
        first, n, highest = state
        if row[0] - first > size:
            return (row[0], 1, row[1]), [(row[0], highest, n)]
        return (first, n + 1, max(highest, row[1])), []

    return step


@dataclass(frozen=True, kw_only=True)
class DataflowContender:
    """A dataflow over the files: read in order by one worker, spread over both by key.

    Attributes:
        step: computes the window.
        name: in the results.
        rows: of one input batch of the dataflow.
        recovers: whether it writes its state.
    """

    step: Step
    name: str = "bytewax"
    rows: int = ROWS_AT_A_TIME
    recovers: bool = False

    def measure(self, given: Input, environment: RunEnvironment) -> list[TimedBatch]:
        """Run over the input. A dataflow has no batches: each file counts as one of the same duration."""
        began = time.perf_counter()
        self._run(given, environment, _discard)
        seconds = (time.perf_counter() - began) / given.files
        return [TimedBatch(given.rows, seconds)] * given.files

    def results(self, given: Input, environment: RunEnvironment) -> pa.Table:
        """Run over the input and return the results."""
        got: list[tuple[str, Fired]] = []
        self._run(given, environment, got.extend)
        keys, fired = zip(*got, strict=True)
        at, highest, n = zip(*fired, strict=True)
        instants = pa.array(at, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        columns = [pa.array(map(int, keys), pa.int64()), instants, pa.array(highest), pa.array(n, pa.int64())]
        return pa.table(columns, names=["key", "fired_at", "highest", "n"])

    def _run(self, given: Input, environment: RunEnvironment, take: Callable[[list[Any]], None]) -> None:
        op = import_module("bytewax.operators")
        flow = import_module("bytewax.dataflow").Dataflow("windows")
        rows = op.input("rows", flow, _source(given.paths, self.rows))
        op.output("results", op.stateful_flat_map("window", rows, self.step), _sink(take))
        run = import_module("bytewax.testing").cluster_main
        if not self.recovers:
            run(flow, [], 0, worker_count_per_proc=WORKERS, epoch_interval=_WITHOUT_RECOVERY)
            return
        recovery, folder = import_module("bytewax.recovery"), environment.new_folder()
        folder.mkdir(parents=True, exist_ok=True)
        recovery.init_db_dir(folder, WORKERS)
        config = recovery.RecoveryConfig(str(folder))
        run(flow, [], 0, worker_count_per_proc=WORKERS, epoch_interval=_WITH_RECOVERY, recovery_config=config)
        shutil.rmtree(folder)


def _discard(_items: list[Any]) -> None:
    """Discard results."""


def _chunks(paths: list[Path], rows: int) -> Iterator[list[tuple[str, Row]]]:
    for path in paths:
        for batch in pq.ParquetFile(path).iter_batches(rows):
            keys = batch.column("key").cast(pa.string()).to_pylist()
            at = batch.column("ts").cast(pa.int64()).to_pylist()
            yield list(zip(keys, zip(at, batch.column("v").to_pylist(), strict=True), strict=True))


def _source(paths: list[Path], rows: int) -> Any:
    inputs = import_module("bytewax.inputs")

    def build(_self: Any, _step: str, worker: int, _workers: int) -> Any:
        chunks = _chunks(paths if worker == 0 else [], rows)
        return _instance_of(inputs.StatelessSourcePartition, next_batch=lambda _: next(chunks))

    return _instance_of(inputs.DynamicSource, build=build)


def _sink(take: Callable[[list[Any]], None]) -> Any:
    outputs = import_module("bytewax.outputs")

    def build(_self: Any, _step: str, _worker: int, _workers: int) -> Any:
        return _instance_of(outputs.StatelessSinkPartition, write_batch=lambda _, items: take(items))

    return _instance_of(outputs.DynamicSink, build=build)


def _instance_of(base: type, **methods: Callable[..., Any]) -> Any:
    """Return an object of a new subclass; a class statement would need the package when this file is read."""
    return type(base.__name__, (base,), methods)()
