"""`play`: runs one vector in memory or on Spark and returns its events.

In memory that is the core alone: a key group is built for every micro-batch, as in a real job. A restart keeps the
bytes of the store and nothing else: the job spec, too, is read back from its pickle.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from panekeeper.framework.core.group_batch import GroupBatch
from panekeeper.framework.core.steps import Step, Tick
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.testing.lifecycle import parse_lifecycle, run_step
from panekeeper.framework.testing.steps import (
    BatchSplit,
    Restart,
    VectorBatch,
    items_to_steps,
    job_spec_for,
    read_events,
    split_into_batches,
)
from panekeeper.framework.testing.vector import Item, Vector, parse
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class MemoryRun:
    """One vector on the core.

    Attributes:
        vector: the parsed vector.
        spec: its job spec.
        store: the stored state, which a restart would read.
        saved: the stores of named checkpoints.
        counts: rows by what became of them, summed over all batches.
    """

    def __init__(self, vector: Vector) -> None:
        self.vector = vector
        self.spec = job_spec_for(vector)
        self.store = MemoryStore()
        self.saved: dict[str, MemoryStore] = {}
        self.counts: dict[str, int] = {}

    def play(self, batches: Iterable[VectorBatch]) -> list[dict[str, Any]]:
        """Run the micro-batches and return the events."""
        events = self.clock(self.vector.ready_us)
        for batch in batches:
            match batch.items:
                case (Item(kind="checkpoint", value=name, at_us=at),):
                    events += self.clock(at)
                    self.saved[name] = self.store.copy()
                case (Item(kind="reset", value=None, at_us=at),):
                    self.store = MemoryStore()
                    events += self.clock(at)
                case (Item(kind="reset", value=name, at_us=at),):
                    self.store = self.saved[name].copy()
                    events += self.clock(at, resume=True)
                case items:
                    events += self.run(items_to_steps(items, self.spec.columns))
            if batch.restart:
                self.spec = pickle.loads(pickle.dumps(self.spec))  # noqa: S301 -- our own bytes
                self.store = self.store.copy()
        return events

    def clock(self, now: int | None, *, resume: bool = False) -> list[dict[str, Any]]:
        """Run a micro-batch with only a tick; none for a time interval, which has no clock."""
        if now is None or self.vector.ready_us is None:
            return []
        return self.run([Tick(now, resume=resume)])

    def run(self, steps: Iterable[Step]) -> list[dict[str, Any]]:
        """Run one micro-batch in a newly built key group and return its events."""
        outcome = GroupBatch(number=0, group=0, steps=[*steps]).run(self.spec, self.store)
        for name, count in outcome.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        return read_events(outcome.results, outcome.rejected)


def play(
    vector: dict[str, Any],
    *,
    engine: Literal["memory", "spark"] = "memory",
    cut: BatchSplit = "whole",
    restart_after: Restart = "none",
    spark: SparkSession | None = None,
) -> list[dict[str, Any]]:
    """Play one vector and return its events, in the shape of a vector's `expect`.

    The same vector gives the same events for every engine, cut and restart (docs/semantics.md section 1.4); only the
    order between keys at one instant, and between panes of one watermark, is open (`difference` ignores it). The
    vector's own `expect` is not compared; its fields are checked.

    A vector of the kind "lifecycle" declares state handlers and what happens to them; its events are their calls.

    Args:
        vector: an object of the vectors' shape. An unknown field is refused, wherever it stands.
        engine: "memory" runs the core alone, "spark" a real streaming query.
        cut: how the input is split into micro-batches: "whole" is one, "each" one for every item, an int seeds a
            random split.
        restart_after: after which input items the process stops and resumes from its stored state: "none", "each",
            or their positions from 0. A restart ends the micro-batch.
        spark: the session to play on; `panekeeper.session()` if not given. Only for `engine="spark"`.

    Returns:
        The events, in order.

    Raises:
        DeclarationError: an unknown field or argument, or a window that is refused.

    Examples:
        >>> window = {"kind": "sliding", "eviction": {"policy": "count", "size": 2}}
        >>> tuples = [{"at": second, "value": {"v": second}} for second in (1, 2, 3)]
        >>> [event["tuples"] for event in play({"window": window, "input": tuples}) if event["event"] == "trigger"]
        [[{'v': 1}], [{'v': 1}, {'v': 2}], [{'v': 2}, {'v': 3}]]
    """
    if engine not in ("memory", "spark"):
        raise DeclarationError(f'engine is {engine!r}; it must be "memory" or "spark"')
    window = vector.get("window")
    if isinstance(window, dict) and window.get("kind") == "lifecycle":
        declaration, steps = parse_lifecycle(vector)
        if engine == "spark":
            from panekeeper.framework.testing.spark_run import play_lifecycle_on_spark

            return play_lifecycle_on_spark(declaration, steps, spark)
        store = MemoryStore()
        return [call for step in steps for call in run_step(step, declaration, store)]
    parsed = parse(vector)
    batches = split_into_batches(parsed.items, cut, restart_after)
    if engine == "memory":
        return MemoryRun(parsed).play(batches)
    from panekeeper.framework.testing.spark_run import play_on_spark

    return play_on_spark(parsed, batches, spark)
