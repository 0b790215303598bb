"""Until when have panes of a calendar had rows, where a start brings other data of its zone?

They keep their starts and ends, in all key groups alike, and panes after them have those of the new data
(docs/semantics.md section 6.10). So the state is read at such a start, and what was known before is recorded with the
declaration (`state/history.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from panekeeper.framework.core.panes.calendar import CalendarPanes
from panekeeper.framework.declarations.calendar import CalendarStart
from panekeeper.framework.engine.session.settings import format_of_state, stored_state
from panekeeper.state.history import History, calendars_with_other_data
from panekeeper.state.records import NO_WATERMARK, IntervalRecord
from panekeeper.state.store import HEADER, WindowStore

if TYPE_CHECKING:
    from panekeeper.framework.engine.session.checkpoint_files import CheckpointFiles


def edges_until(
    files: CheckpointFiles,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    watermark_us: int | None,
    name: str,
    batch: int,
) -> int | None:
    """Return the end of the last pane with rows in any key group, or the watermark, if that is later; us.

    `name` is that of the window, if it is one of several, else empty; the state is that as of a batch. None: no pane
    has had rows, or no data changed.
    """
    until: list[int] = []
    for window in calendars_with_other_data(old, new):
        until += [] if watermark_us is None else [watermark_us]
        with format_of_state(files.spark):
            for body in stored_headers(files, WindowStore.name_of(name) if name else _part_of(window), batch):
                until.append(reached(IntervalRecord.decode(body), old, window))
    return max((edge for edge in until if edge != NO_WATERMARK), default=None)


def reached(record: IntervalRecord, declaration: Mapping[str, Any], window: str) -> int:
    """Return the end of the last pane of a key group, by the recorded declaration, or its watermark; us."""
    if not record.panes:
        return record.watermark
    unit, data, zone, months, days, time_us = (
        declaration[f"{window}{name}"]
        for name in ("calendar", "zone_data", "zone", "starts_months", "starts_days", "starts_us")
    )
    start = CalendarStart(months=months, days=days, time_us=time_us)
    panes = CalendarPanes.of(unit, start, data, History.of(declaration).former_zone_data(zone))
    return max(record.watermark, int(panes.starts(np.array([max(record.panes) + 1]))[0]))


def _part_of(window: str) -> str:
    """Return the part of the store that a window has; empty: it is that of the first port, and has none."""
    port = window.partition(".")[0].removeprefix("port_")
    return "" if port == "window" else f"port {port}"


def stored_headers(files: CheckpointFiles, part: str, batch: int) -> Iterator[bytes]:
    """Yield the headers of a part of the store in all key groups; of the whole, if it is empty."""
    segments = stored_state(files.spark, files.place, batch)
    rows = segments.where(segments["kind"] == (f"{part}/{HEADER}" if part else HEADER)).select("body")
    for (body,) in rows.toLocalIterator():
        yield bytes(body)
