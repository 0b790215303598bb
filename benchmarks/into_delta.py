"""Contenders that write Delta tables: by what a batch takes, what a start takes, and how late a row is visible."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.contenders import RunEnvironment, TimedBatch, before_the_end
from benchmarks.data import COLUMNS, Input, file_start_us
from benchmarks.tables import CHECKPOINT, LOG, TableJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PERIOD = 1.0  # seconds between two files
_LIMIT = 120.0  # seconds in which a file must become visible
_POLL = 0.002
_COMPARED_FILES = 3


@dataclass(frozen=True, kw_only=True)
class _TableContender:
    """A job, and those columns of its table that all contenders have."""

    job: TableJob
    columns: tuple[str, ...]
    compared_before: str | None = None
    """Only results with a time in this column that is before the end of the input are compared."""
    streams: int = 1
    """The job reads the input so many times."""

    @property
    def name(self) -> str:
        """Its name in the results."""
        return self.job.name

    def sources(self, given: Input, environment: RunEnvironment) -> list[DataFrame]:
        """Return the streams that the job reads."""
        return [environment.read(given, stream=f"{number}") for number in range(self.streams)]

    def results(self, given: Input, environment: RunEnvironment) -> pa.Table:
        """Run over the input and return the table, without the columns that only Panekeeper has."""
        folder = environment.new_folder()
        self.job.start(self.sources(given, environment), folder, continuous=False).await_end()
        table = environment.spark.read.format("delta").load(str(folder / LOG)).toArrow()
        shutil.rmtree(folder)
        table = table.select(self.columns)
        return table if self.compared_before is None else before_the_end(table, self.compared_before, given)


@dataclass(frozen=True, kw_only=True)
class DeltaContender(_TableContender):
    """Measured by its micro-batches, from files to the committed table."""

    def measure(self, given: Input, environment: RunEnvironment) -> list[TimedBatch]:
        """Run over the input and return its micro-batches, in order."""
        folder = environment.new_folder()
        running = self.job.start(self.sources(given, environment), folder, continuous=False)
        running.await_end()
        shutil.rmtree(folder)
        return running.batches()


@dataclass(frozen=True, kw_only=True)
class StartContender(_TableContender):
    """Measured from the declaration to the first batch that is committed: of the first start, then of resuming ones."""

    def measure(self, given: Input, environment: RunEnvironment) -> list[TimedBatch]:
        """Start the job once for each file, on one checkpoint; each start counts as a batch."""
        folder = environment.new_folder()
        starts = []
        for files in range(1, given.files + 1):
            before = _last_commit(folder)
            is_committed = partial(_has_commit_after, folder, before)
            began = time.monotonic()
            running = self.job.start(self.sources(replace(given, files=files), environment), folder, continuous=False)
            _wait_until(is_committed)
            starts.append(TimedBatch(given.rows, time.monotonic() - began))
            running.await_end()
        shutil.rmtree(folder)
        return starts


@dataclass(frozen=True, kw_only=True)
class DelayContender(_TableContender):
    """Measured from the instant at which a file appears to the commit with the panes that it completes.

    The job runs all the time, and a file comes every second.
    """

    def measure(self, given: Input, environment: RunEnvironment) -> list[TimedBatch]:
        """Return the delay of each file as the duration of a batch."""
        folder = environment.new_folder()
        (watched := folder / "in").mkdir()
        source = environment.spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(watched))
        visible = VisiblePanes(folder / LOG, [file_start_us(number) for number in range(given.files)])
        visible.start()
        running = self.job.start([source], folder, continuous=True)
        appeared: list[float] = []
        for number, path in enumerate(given.paths):
            if number:
                _wait_until(partial(visible.has, 0))
                time.sleep(max(0.0, appeared[-1] + _PERIOD - time.monotonic()))
            shutil.copyfile(path, part := watched / f".{path.name}")
            appeared.append(time.monotonic())
            part.rename(watched / path.name)
        _wait_until(partial(visible.has, -1))
        visible.end()
        running.stop()
        shutil.rmtree(folder)
        pairs = zip(appeared, visible.at, strict=True)
        return [TimedBatch(given.rows, there - came) for came, there in pairs if there is not None]

    def results(self, given: Input, environment: RunEnvironment) -> pa.Table:
        """Run over the first files and return the table: that the others give the same is compared elsewhere."""
        few = replace(given, files=min(given.files, _COMPARED_FILES))
        return super().results(few, environment)


class VisiblePanes:
    """Watches the log of a Delta table, and notes when panes that begin at these instants, or later, are in it."""

    def __init__(self, table: Path, starts_us: list[int]) -> None:
        self.at: list[float | None] = [None] * len(starts_us)
        self._log = table / "_delta_log"
        self._starts = starts_us
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._version = 0

    def start(self) -> None:
        """Begin to look all the time."""
        self._thread.start()

    def has(self, number: int) -> bool:
        """Return whether the panes of a file are visible."""
        return self.at[number] is not None

    def end(self) -> None:
        """End the watch."""
        self._ended.set()
        self._thread.join()

    def look(self) -> None:
        """Read the commits that are new."""
        while (path := self._log / f"{self._version:020d}.json").exists():
            now = time.monotonic()
            newest = max(_pane_starts(path), default=-1)
            for number, start in enumerate(self._starts):
                if self.at[number] is None and newest >= start:
                    self.at[number] = now
            self._version += 1

    def _watch(self) -> None:
        while not self._ended.wait(_POLL):
            self.look()


def _pane_starts(commit: Path) -> Iterator[int]:
    """Return the greatest start of a pane, us, in each file that a commit added."""
    for line in commit.read_text(encoding="utf-8").splitlines():
        stats = json.loads(line).get("add", {}).get("stats")
        greatest = json.loads(stats).get("maxValues", {}).get("pane_start") if stats else None
        if greatest is not None:
            yield round(datetime.fromisoformat(greatest).timestamp() * 1_000_000)


def _last_commit(folder: Path) -> int:
    """Return the last batch that Spark has committed. A job keeps Spark's checkpoint in its epoch."""
    places = (folder / CHECKPOINT / "commits", folder / CHECKPOINT / "epochs/0000/commits")
    return max((int(path.name) for place in places for path in place.glob("[0-9]*")), default=-1)


def _has_commit_after(folder: Path, before: int) -> bool:
    return _last_commit(folder) > before


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _LIMIT
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"a contender has not committed within {_LIMIT:g} s")
        time.sleep(_POLL)
