"""An operator over two ports to test with: its job spec, its input, and the batches of one key group."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, ClassVar

import pyarrow as pa

from panekeeper import Count, Event, EventType, Operator, Sliding, StateContext, StateHandler, Tumbling
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, EVENT_TIME, JobSpec, PortSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint
from panekeeper.framework.core.steps import BatchOutcome, Rows, Step, Tick, Watermark
from panekeeper.framework.declarations.operator import Emit
from panekeeper.state.store import MemoryStore

KEYS = (pa.schema([("key", pa.string())]), pa.schema([("name", pa.string())]))
"""The partition columns of each port: the same keys by other names."""
OUTPUT = pa.schema([("kind", pa.string()), ("own", pa.int64()), ("seen", pa.string())])


class TwoPortOperator(Operator, StateHandler):
    """Emits for each firing its sum, and all firings of the key on either port before."""

    events: ClassVar[frozenset[EventType]] = frozenset(
        {EventType.EVICTION, EventType.TRIGGER, EventType.PARTITION_EVICTION, EventType.FINAL}
    )

    def __init__(self) -> None:
        self.seen: dict[str | None, str] = {}

    def handle_event(self, event: Event, emit: Emit) -> None:
        if event.type is EventType.EVICTION and event.port:
            return  # of a sliding window: how many leave in one event depends on the batch
        own, before = int(event.column("v").sum()), self.seen.get(event.key, "")
        emit(kind=event.type.value, own=own, seen=before)
        self.seen[event.key] = f"{before} {event.port}:{own}".strip()

    def checkpoint(self, ctx: StateContext) -> None:
        ctx.write("seen", self.seen)

    def reset(self, ctx: StateContext) -> None:
        self.seen = ctx.read("seen")


def spec(*handlers: StateHandler, windows: tuple[Any, Any] | None = None) -> JobSpec:
    """Two ports: by default pairs of rows, and the last three rows."""
    first, second = windows or (Tumbling(Count(2)), Sliding(evict=Count(3)))
    columns = [pa.schema([*keys, pa.field("v", pa.int64())]) for keys in KEYS]
    operator = TwoPortOperator()
    return JobSpec(
        window=first,
        keys=KEYS[0],
        columns=columns[0],
        operator=operator,
        output=OUTPUT,
        handlers=(operator, *handlers),
        other_ports=(PortSpec(window=second, keys=KEYS[1], columns=columns[1]),),
    )


def rows(port: int, *pairs: tuple[str, int], at: int = 1, time: str = ARRIVAL_TIME) -> Rows:
    """Rows of (key, v) that arrived on a port at one instant."""
    keys, values = zip(*pairs, strict=True)
    (name,) = KEYS[port].names
    times = pa.array([at] * len(keys), pa.int64())
    return Rows(pa.table({name: keys, "v": pa.array(values, pa.int64()), time: times}), port)


def run(made: JobSpec, store: MemoryStore, number: int, *steps: Step, **checkpoint_info: Any) -> BatchOutcome:
    """One batch, as the checkpoint of that number."""
    return KeyGroupRunner(made, store, BatchCheckpoint(checkpoint=number, group=0, **checkpoint_info)).run(steps)


def emitted(outcome: BatchOutcome) -> list[tuple[str | None, int, str, int, str]]:
    """What was emitted: (key, port, kind, own, seen)."""
    if outcome.results is None:
        return []
    return [tuple(row.values()) for row in outcome.results.select(["key", "port", *OUTPUT.names]).to_pylist()]


@dataclass(frozen=True)
class Item:
    """A row for a port; where `key` is None the clock of both ports advances."""

    port: int
    key: str | None
    v: int
    at: int


def steps_of(items: Iterable[Item], *, paned: bool) -> Iterator[Step]:
    """The items as steps: neighbours on one port in one table; a port with panes has event time."""
    for (port, is_time), group in groupby(items, key=lambda item: (item.port, item.key is None)):
        if is_time:
            for item in group:
                yield Watermark(item.at, port=1)
                yield from (Tick(item.at, port=both) for both in (0, 1))
            continue
        time = EVENT_TIME if paned and port else ARRIVAL_TIME
        tables = [rows(port, (item.key, item.v), at=item.at, time=time).table for item in group if item.key is not None]
        yield Rows(pa.concat_tables(tables), port)


def play(made: JobSpec, items: list[Item], splits: Iterable[int]) -> dict[str | None, list[Any]]:
    """Run the items in batches split at these places, each after a restart; return what was emitted, by key.

    In the order in which the operator emitted it: the log has the rows of port 0 in a batch before those of port 1.
    """
    bounds = [0, *sorted({*splits}), len(items)]
    paned = made.ports[1].has_panes
    store, by_key = MemoryStore(), dict[str | None, list[Any]]()
    for number, (low, high) in enumerate(pairwise(bounds)):
        made, store = pickle.loads(pickle.dumps(made)), store.copy()  # noqa: S301 -- our own bytes
        outcome = run(
            made, store, number, *steps_of(items[low:high], paned=paned), run=number + 1, no_batch_committed=not number
        )
        for key, *rest in emitted(outcome):
            by_key.setdefault(key, []).append(rest)
    return {key: sorted(emitted, key=lambda one: len(one[-1].split())) for key, emitted in by_key.items()}
