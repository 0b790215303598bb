"""What the restart matrix is made of: the kinds of windows, the ways to stop, and a run that is stopped in one of them.

Started as a program, `python -m integration_tests.engine.restart_matrix FOLDER WAY AFTER`, it begins a run of every
kind, to which there comes `data` or `nothing` afterwards, leaves each of them in the midst of a batch (the state is
written, Spark's commit is not) and gets killed, with its JVM.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from integration_tests.drills.faults.armed import kill_process
from panekeeper import session
from panekeeper.framework.core.steps import Tick
from panekeeper.framework.testing.recorder import job_spec_for
from panekeeper.framework.testing.spark_run import ListSink, SparkRun
from panekeeper.framework.testing.steps import items_to_steps
from panekeeper.framework.testing.vector import ResetItem, parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.engine.sink.batch.output import BatchOutput
    from panekeeper.state.prepared import PreparedBatch

STOP_AT = 8
"""The wall clock, in seconds, when the run stops; it has taken in everything until 7."""

KINDS: Mapping[str, dict[str, Any]] = {
    "tumbling-count": {"kind": "tumbling", "eviction": {"policy": "count", "size": 3}},
    "tumbling-time": {"kind": "tumbling", "eviction": {"policy": "time", "size": 30}},
    "tumbling-delta": {"kind": "tumbling", "eviction": {"policy": "delta", "attr": "v", "size": 3}},
    "tumbling-punctuation": {"kind": "tumbling", "eviction": {"policy": "punct"}},
    "sliding-count-by-time": {
        "kind": "sliding",
        "eviction": {"policy": "count", "size": 3},
        "trigger": {"policy": "time", "size": 20},
    },
    "sliding-time-by-count": {
        "kind": "sliding",
        "eviction": {"policy": "time", "size": 25},
        "trigger": {"policy": "count", "size": 2},
    },
    "sliding-delta-by-delta": {
        "kind": "sliding",
        "eviction": {"policy": "delta", "attr": "v", "size": 4},
        "trigger": {"policy": "delta", "attr": "v", "size": 2},
    },
    "batched": {"kind": "batched", "within": 25, "every": 10, "retain": 3},
    "partition-age": {
        "kind": "tumbling",
        "eviction": {"policy": "count", "size": 9},
        "partition_eviction": {"policy": "partitionAge", "size": 30},
    },
    "time-interval": {"kind": "timeInterval", "intervalDuration": 10, "discardAge": 20, "event_time": "ts"},
}


@dataclass(frozen=True)
class Way:
    """How a run stops and comes back: what ends it, and when, in seconds, the next one begins.

    It is killed after the batch's state is stored: before it is recorded what the batch writes, or after that.
    """

    stop: str
    back_at: int = STOP_AT
    is_recorded: bool = False


WAYS: Mapping[str, Way] = {
    "clean-stop": Way("end"),
    "kill-9": Way("kill"),
    "kill-9-recorded": Way("kill", is_recorded=True),
    "drain": Way("drain"),
    "reset-to-initial": Way("initial"),
    "outage-shorter": Way("end", STOP_AT + 4),
    "outage-longer": Way("end", STOP_AT + 67),
}


def before(kind: str) -> list[dict[str, Any]]:
    """What comes in before the stop; the last item is in flight when a run is killed."""
    tuples = [(1, "a", 1), (2, "b", 2), (4, "a", 4), (5, "b", 5), (7, "a", 8)]
    if kind == "time-interval":
        items: list[dict[str, Any]] = [{"value": {"ts": at, "v": v}, "key": key} for at, key, v in tuples]
        return [*items[:3], {"watermark": 3}, *items[3:]]
    items = [{"at": at, "value": {"v": v}, "key": key} for at, key, v in tuples]
    marks = [{"at": 3, "punct": "window"}] if kind == "tumbling-punctuation" else []
    return [*items[:2], *marks, *items[2:]]


def after(kind: str, way: Way, *, data: bool) -> list[dict[str, Any]]:
    """What comes in after the run is back: tuples, and time enough for what is due next; or nothing at all."""
    if not data:
        return []
    back = way.back_at
    tuples = [(back + 1, "b", 9), (back + 2, "a", 11), (back + 2, "c", 1)]
    if kind == "time-interval":
        late = {"value": {"ts": 6, "v": 7}, "key": "b"}
        return [late, *[{"value": {"ts": at, "v": v}, "key": key} for at, key, v in tuples], {"watermark": back + 90}]
    items: list[dict[str, Any]] = [{"at": at, "value": {"v": v}, "key": key} for at, key, v in tuples]
    marks = [{"at": back + 3, "punct": "window"}] if kind == "tumbling-punctuation" else []
    return [*items, *marks, {"advance_clock": back + 41}]


def vector(kind: str, way: Way, *, data: bool) -> dict[str, Any]:
    """The whole story as a vector: the memory engine says what should happen."""
    clock = {} if kind == "time-interval" else {"at": way.back_at}
    if way.stop == "initial":
        stop: list[dict[str, Any]] = [clock | {"reset_to_initial": True}]
    else:
        stop = [({"at": STOP_AT} if clock else {}) | {"checkpoint": "c"}, clock | {"reset": "c"}]
    window = KINDS[kind] | {"partitioned": True}
    return {"window": window, "input": [*before(kind), *stop, *after(kind, way, data=data)]}


class StoppedRun(SparkRun):
    """A run on Spark that is stopped in one of the ways; its checkpoint and its input stay where they are."""

    def __init__(self, kind: str, way: Way, spark: SparkSession, folder: Path, *, data: bool) -> None:
        self.story = parse(vector(kind, way, data=data))
        self.at = next(n for n, item in enumerate(self.story.items) if isinstance(item, ResetItem))
        self.kind, self.way = kind, way
        super().__init__(self.story, spark, folder, name=folder.name)

    def begin(self) -> None:
        """Take in everything before the stop; the last item is a micro-batch of its own."""
        self.clock(self.story.declared.ready_us)
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
            self.done = len(self.files)
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
        last = self.files[-1]
        hidden = last.with_name(f".{last.name}")
        last.rename(hidden)
        opening, self.waiting = self.waiting, []
        self.run_query()
        hidden.rename(last)
        (self.input.parent / "events.json").write_text(json.dumps(self.sink.events))
        self.waiting = opening
        self.sink = StuckSink(in_write=self.way.is_recorded)
        self.job("available_now")
        assert self.sink.reached.wait(300)

    def attach(self) -> None:
        """Find what a run that was killed has left."""
        self.files = sorted(self.input.glob("*.parquet"))
        self.sink.events = json.loads((self.input.parent / "events.json").read_text())
        if self.story.declared.ready_us is not None:
            self.waiting = [Tick(STOP_AT * 1_000_000)]


class StuckSink(ListSink):
    """A sink that never comes back from a batch: the plan has run, and what it writes may be recorded."""

    def __init__(self, *, in_write: bool) -> None:
        super().__init__()
        self.in_write = in_write
        self.reached = threading.Event()

    def prepared(self, batch: BatchOutput, **given: Any) -> PreparedBatch:
        """Say what the batch writes, or hang before that."""
        if not self.in_write:
            self.hang()
        return super().prepared(batch, **given)

    def write(self, *_: Any) -> tuple[str, ...]:
        """Hang before anything is written."""
        return self.hang()

    def hang(self) -> NoReturn:
        """Say that the run is there, and stay."""
        self.reached.set()
        while True:
            threading.Event().wait()


def main(root: Path, way: str, after_it: str) -> None:
    """Begin a run of every kind, in a folder of its name, hang in all of them, and exit."""
    spark = session("matrix", cores=2, **{"spark.sql.shuffle.partitions": 1})
    for kind in KINDS:
        (root / kind).mkdir(parents=True)
        StoppedRun(kind, WAYS[way], spark, root / kind, data=after_it == "data").hang()
    kill_process()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
