"""The order in which a key group processes a batch: packed rows in any order in, steps out.

The time of the control stream comes first, for every port; then the rows and marks of port 0 by their place, then those
of port 1, and so on; then the progress of event time on each; a flush last. So what is overdue happens before any new
row, and the place of a row inside a batch depends on its port, not on which task read it first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import pyarrow as pa

from panekeeper.framework.core import stream_clock
from panekeeper.framework.core.job_spec import REST
from panekeeper.framework.core.packed_rows import (
    AFTER_ALL_PARTITIONS,
    BEFORE_ALL_PARTITIONS,
    PARTIAL_KIND,
    PROGRESS_KIND,
    REFUSED_KIND,
    from_segment,
    is_control,
)
from panekeeper.framework.core.steps import (
    EventTimeProgress,
    EvictPartitions,
    Flush,
    Mark,
    PartialRows,
    PortStep,
    Rows,
    Step,
    Tick,
    Watermark,
)
from panekeeper.framework.core.stream_clock import ARRIVED_KIND
from panekeeper.state.checkpoint.control_files import CHECKPOINT_COMMANDS
from panekeeper.state.records import Source


@dataclass(frozen=True, kw_only=True)
class PortOrdering:
    """What must be known of a port to put its rows in order. Picklable; sent to the workers.

    Attributes:
        columns: the columns to keep after sorting.
        order_by: columns that declare the order of arrival; they sort the rows between two marks.
        keys: the partition columns, for marks that name a partition.
        has_stream_clock: whether the stream has its own time, so that ticks of the wall clock do not apply to it.
    """

    columns: tuple[str, ...]
    order_by: tuple[str, ...] = ()
    keys: pa.Schema
    has_stream_clock: bool = False


def to_steps(packed: Iterable[Any], ports: Sequence[PortOrdering]) -> list[Step]:
    """Return a group's packed rows as steps in their order of arrival; rejected rows and a drain are no step.

    `packed` are rows with port, kind, lot, part, pos, n and body, in any order: the shuffle mixes them.
    """
    ordered = sorted(_without_aborted_starts([row for row in packed if row.kind not in _NOT_A_STEP]), key=_order_key)
    steps: list[Step] = []
    for (kind, port), neighbours in groupby(ordered, key=_group_key):
        if kind == PROGRESS_KIND:
            steps.append(_progress(neighbours))
        elif kind.startswith(PARTIAL_KIND):
            steps.append(PartialRows(_together(neighbours), port, kind.partition(":")[2]))
        elif kind == "rows":
            steps.extend(_row_steps(list(neighbours), ports[port], port))
        else:
            once = {(row.kind, row.lot or row.part, row.lot or row.pos): row for row in neighbours}
            steps.extend(step for row in once.values() for step in _control_steps(row, ports))
    return steps


def _without_aborted_starts(packed: list[Any]) -> Iterator[Any]:
    """Yield the rows without the resumes of starts that came to no batch: what is overdue happens once, for the last.

    Only the control stream may have several; those in a port's own stream of marks are data.
    """
    starts = (row.pos for row in packed if _is_start(row))
    last = max(starts, default=None)
    yield from (row for row in packed if not _is_start(row) or row.pos == last)


def _is_start(row: Any) -> bool:
    return bool(row.kind == "resume" and row.part == BEFORE_ALL_PARTITIONS)


def _row_steps(packed: Sequence[Any], ordering: PortOrdering, port: int) -> Iterator[PortStep]:
    """Return neighbouring rows of a port as one step, between those of the clock that passes with them."""
    given = [None if row.kind == ARRIVED_KIND else from_segment(row.body) for row in packed]
    tables, passed = stream_clock.join(packed, given, sorted_later=bool(ordering.order_by))
    rows: list[PortStep] = []
    if tables:
        # Only rows that may get into the quarantine bring what the job does not read.
        promote = "default" if len({packed_table.num_columns for packed_table in tables}) > 1 else "none"
        table = pa.concat_tables(tables, promote_options=promote).combine_chunks()
        rest = [REST] if REST in table.column_names else []
        if ordering.order_by:
            table = table.sort_by([(name, "ascending") for name in ordering.order_by])  # stable: ties keep input order
        rows.append(Rows(table.select([*ordering.columns, *rest]), port, ordering.has_stream_clock))
    yield from stream_clock.clock_steps(passed, rows, port)


def _progress(packed: Iterable[Any]) -> EventTimeProgress:
    """Return how far all input partitions of all ports have come together."""
    reached: dict[Source, int] = {}
    at = None
    for row in packed:
        more = {} if row.body is None else json.loads(bytes(row.body))
        at = more.get("at", at)  # of one batch: the same for all
        for part, us in more.get("parts", {"": row.n}).items():
            source = (row.port, part)
            reached[source] = max(us, reached.get(source, us))
    return EventTimeProgress(tuple(sorted(reached.items())), at)


def _together(packed: Iterable[Any]) -> pa.Table:
    return pa.concat_tables([from_segment(row.body) for row in packed]).combine_chunks()


def _control_steps(row: Any, ports: Sequence[PortOrdering]) -> Iterator[PortStep]:
    """Return the steps of a control row for every port, or of a mark for its own."""
    if row.kind == "flush":  # what is due by then happens first, for its own reason
        yield from (
            Tick(row.n, port=port) for port, port_ordering in enumerate(ports) if not port_ordering.has_stream_clock
        )
    if is_control(row):
        for port, ordering in enumerate(ports):
            if row.part == AFTER_ALL_PARTITIONS or not ordering.has_stream_clock:
                yield replace(_STEPS[row.kind](row.n), port=port)
    elif row.kind == "evict":
        keys = ports[row.port].keys
        values = json.loads(bytes(row.body))
        yield EvictPartitions(pa.Table.from_pylist([dict(zip(keys.names, values, strict=True))], schema=keys), row.port)
    else:
        yield replace(_STEPS[row.kind](row.n), port=row.port)


def _group_key(row: Any) -> tuple[str, int]:
    """What is taken together: rows of a port, progress of all, anything else of a port."""
    if row.kind == PROGRESS_KIND:
        return PROGRESS_KIND, 0
    return "rows" if row.kind in _AT_ONE_PLACE else row.kind if row.kind.startswith(PARTIAL_KIND) else "", row.port


def _order_key(row: Any) -> tuple[int, int, str, int, int, int]:
    """Order of arrival: ticks, then ports, files by age where they end in marks, input partitions; a flush last.

    At one place the rows come first, then the clock that passes with them, then a mark that follows them.
    """
    phase = row.part if is_control(row) else int(row.kind == PROGRESS_KIND)
    # Partial rows of several windows come window by window: of panes, in which order says nothing.
    lot = row.kind if row.kind.startswith(f"{PARTIAL_KIND}:") else row.lot or ""
    return phase, row.port, lot, row.part, row.pos, _AT_ONE_PLACE.get(row.kind, len(_AT_ONE_PLACE))


_AT_ONE_PLACE = {"rows": 0, ARRIVED_KIND: 1}
_NOT_A_STEP = frozenset({REFUSED_KIND, *CHECKPOINT_COMMANDS})  # nothing becomes due by a drain
_STEPS: dict[str, Callable[[int], PortStep]] = {
    "resume": lambda us: Tick(us, resume=True),
    "tick": Tick,
    "clock": lambda us: Tick(us, is_last_at_instant=True),
    "watermark": Watermark,
    "mark:window": lambda us: Mark("window", us or None),
    "mark:final": lambda _: Mark("final"),
    "flush": lambda _: Flush(),
}
"""What the kinds of packed rows mean that carry at most a time."""
