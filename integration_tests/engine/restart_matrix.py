"""A run of the restart matrix on Spark: it is stopped in one of the ways, and comes back.

Started as a program, `python -m integration_tests.engine.restart_matrix FOLDER WAY HALF`, it begins a run of half of
the kinds of windows, leaves each of them in the midst of a batch (the state is written, Spark's commit is not) and gets
killed, with its JVM.
"""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from integration_tests.drills.faults.armed import kill_process
from integration_tests.engine.restart_stories import STOP_AT, WAYS, Way, before, kinds_of, story, with_data
from panekeeper import session
from panekeeper.framework.core.steps import Tick
from panekeeper.framework.testing.spark_run import ListSink, SparkRun
from panekeeper.framework.testing.steps import items_to_steps, job_spec_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class StoppedRun(SparkRun):
    """A run on Spark that is stopped in one of the ways; its checkpoint and its input stay where they are."""

    def __init__(self, kind: str, way: Way, spark: SparkSession, folder: Path, *, data: bool) -> None:
        self.story = story(kind, way, data=data)
        self.at = next(n for n, item in enumerate(self.story.items) if item.kind == "reset")
        self.kind, self.way = kind, way
        super().__init__(self.story, spark, folder, name=folder.name)

    def begin(self) -> None:
        """Take in everything before the stop; the last item is a micro-batch of its own."""
        self.clock(self.story.ready_us)
        *most, last = self.story.items[: len(before(self.kind))]
        for items in (most, [last]):
            self.write(items_to_steps(items, job_spec_for(self.story).columns))
        if self.way.stop != "initial":
            self.clock(STOP_AT * 1_000_000)

    def stop(self) -> None:
        """End the run."""
        if self.way.stop == "drain":
            if self.waiting:
                self.write([])
            job = self.job("immediate")
            job.process_available()
            job.drain(timeout=300)
            self.done = len(self.input.written)
        else:
            self.run_query()
        if self.way.stop == "initial":
            self.reset(None)

    def come_back(self) -> list[dict[str, Any]]:
        """Start again, take in what comes after, and return all events of both runs."""
        self.clock(self.way.back_at * 1_000_000, resume=self.way.stop != "initial")
        rest = self.story.items[self.at + 1 :]
        if rest:
            self.write(items_to_steps(rest, job_spec_for(self.story).columns))
        self.run_query()
        return self.sink.events

    def hang(self) -> None:
        """Take in everything before the stop, and get stuck in the last batch: after its state, before its commit."""
        self.begin()
        last = self.input.written[-1]
        hidden = last.with_name(f".{last.name}")
        last.rename(hidden)
        opening, self.waiting = self.waiting, []
        self.run_query()
        hidden.rename(last)
        (self.folder / "events.json").write_text(json.dumps(self.sink.events))
        self.waiting = opening
        self.sink = StuckSink(in_write=self.way.is_recorded)
        self.job("available_now")
        assert self.sink.reached.wait(300)

    def attach(self) -> None:
        """Find what a run that was killed has left."""
        self.input.written = sorted((self.folder / "input").glob("*.parquet"))
        self.sink.events = json.loads((self.folder / "events.json").read_text())
        if self.story.ready_us is not None:
            self.waiting = [Tick(STOP_AT * 1_000_000)]


class StuckSink(ListSink):
    """A sink that never comes back from a batch: the plan has run, and what it writes may be recorded."""

    def __init__(self, *, in_write: bool) -> None:
        super().__init__()
        self.in_write = in_write
        self.reached = threading.Event()

    @property
    def has_user_sink(self) -> bool:  # type: ignore[override]  # asked for when a batch is to be recorded
        """Hang before a batch is recorded."""
        return False if self.in_write else self.hang()

    def write(self, *_: Any) -> None:
        """Hang before anything is written."""
        self.hang()

    def hang(self) -> NoReturn:
        """Say that the run is there, and stay."""
        self.reached.set()
        while True:
            threading.Event().wait()


def main(root: Path, way: str, half: int) -> None:
    """Begin a run of each of these kinds, in a folder of its name, hang in all of them, and exit."""
    spark = session("matrix", cores=2, **{"spark.sql.shuffle.partitions": 1})

    def hang(kind: str) -> None:
        (root / kind).mkdir(parents=True)
        StoppedRun(kind, WAYS[way], spark, root / kind, data=with_data(kind, way)).hang()

    with ThreadPoolExecutor() as pool:
        for hanging in [pool.submit(hang, kind) for kind in kinds_of(way, half)]:
            hanging.result()
        kill_process()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
