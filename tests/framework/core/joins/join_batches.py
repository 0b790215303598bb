"""A join of two ports to test with: its job spec, and its input as micro-batches of key groups, with restarts."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import pyarrow as pa

from panekeeper.framework.core.job_spec import EVENT_TIME, JobSpec, PortSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import BatchOutcome, Flush, Rows, Step, Watermark
from panekeeper.framework.declarations.joins import Join, PaneJoinKind, Within
from panekeeper.framework.declarations.windows import TimeInterval
from panekeeper.state.store import MemoryStore

SECOND = 1_000_000
COLUMNS = (
    pa.schema([("key", pa.string()), ("kind", pa.int64()), ("a", pa.int64())]),
    pa.schema([("name", pa.string()), ("kind", pa.int64()), ("b", pa.int64())]),
)
"""Port 1 has another name for the same key; `kind` must be equal, too, where `on_kind`."""


@dataclass(frozen=True)
class Item:
    """A row of a port, its time in seconds; or, without a port, a watermark; or the flush, without a time."""

    port: int | None
    t: float | None
    key: str | None = None
    v: int = 0
    kind: int | None = 0


def left(key: str | None, t: float, v: int = 0, kind: int | None = 0) -> Item:
    """A row of port 0."""
    return Item(0, t, key, v, kind)


def right(key: str | None, t: float, v: int = 0, kind: int | None = 0) -> Item:
    """A row of port 1."""
    return Item(1, t, key, v, kind)


def watermark(t: float) -> Item:
    """The watermark of both ports."""
    return Item(None, t)


FLUSH = Item(None, None)


def us(t: float) -> int:
    """Seconds as microseconds."""
    return round(t * SECOND)


def spec(window: Within | TimeInterval, how: PaneJoinKind = "inner", *, on_kind: bool = False) -> JobSpec:
    """Two ports joined by their keys."""
    equal = (("key", "kind"), ("name", "kind")) if on_kind else (("key",), ("name",))
    columns = (
        ({"a": "a"}, {"b": "b"}) if on_kind else ({"kind": "left_kind", "a": "a"}, {"kind": "right_kind", "b": "b"})
    )
    if how in ("semi", "anti"):
        columns = (columns[0], {})
    results = [*equal[0][1:], *columns[0].values(), *columns[1].values()]
    return JobSpec(
        window=window,
        keys=pa.schema([("key", pa.string())]),
        columns=COLUMNS[0],
        join=Join(how=how, equal=equal, columns=columns),
        output=pa.schema([(name, pa.int64()) for name in results]),
        other_ports=(PortSpec(window=window, keys=pa.schema([("name", pa.string())]), columns=COLUMNS[1]),),
    )


def steps_of(items: Iterable[Item]) -> Iterator[Step]:
    """The items as steps: neighbours of one port in one table, a watermark and a flush for both."""
    for (port, is_flush), group in groupby(items, key=lambda item: (item.port, item.t is None)):
        if is_flush:
            yield from (Flush(port=both) for both in (0, 1))
        elif port is None:
            yield from (Watermark(us(item.t), port=both) for item in group for both in (0, 1) if item.t is not None)
        else:
            rows = [(item.key, item.kind, item.v, us(item.t)) for item in group if item.t is not None]
            names = [*COLUMNS[port].names, EVENT_TIME]
            table = pa.Table.from_pylist(
                [dict(zip(names, row, strict=True)) for row in rows],
                schema=pa.schema([*COLUMNS[port], (EVENT_TIME, pa.int64())]),
            )
            yield Rows(table, port)


def group_of(item: Item, groups: int) -> int:
    """The key group of a row."""
    return 0 if item.key is None else ord(item.key[0]) % groups


class Groups:
    """Key groups that run micro-batches, each after a restart: nothing is kept but what is stored."""

    def __init__(self, made: JobSpec, groups: int = 1) -> None:
        self.made = made
        self.stores = [MemoryStore() for _ in range(groups)]
        self.last: list[BatchOutcome] = []

    def run(self, items: Sequence[Item]) -> list[dict[str, Any]]:
        """Run one micro-batch and return the result rows."""
        number, self.last = len(self.stores), []
        for group in range(number):
            own = [item for item in items if item.port is None or group_of(item, number) == group]
            self.made, self.stores[group] = pickle.loads(pickle.dumps(self.made)), self.stores[group].copy()  # noqa: S301 -- our own bytes
            self.last.append(KeyGroupRunner(self.made, self.stores[group]).run(steps_of(own)))
        return [row for one in self.last if one.results is not None for row in one.results.to_pylist()]

    @property
    def late(self) -> list[tuple[int, str]]:
        """The rows that the last micro-batch dropped: port, and the row as JSON."""
        tables = [one.rejected for one in self.last if one.rejected is not None]
        return [(row["port"], row["row"]) for table in tables for row in table.to_pylist()]


def cut(items: Sequence[Item], ends: Iterable[int]) -> list[list[Item]]:
    """The items as micro-batches that end at these places."""
    bounds = [0, *sorted({end for end in ends if 0 < end < len(items)}), len(items)]
    return [list(items[low:high]) for low, high in pairwise(bounds)]
