"""What the commands of the inspector show: the first rows, and what has changed between two states."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from panekeeper.framework.declarations.display import Part, format_number
from panekeeper.recovery.rows_as_json import FirstRows

_WAITS_FOR = ("fires_at", "closes_at", "next_clock", "next_rows")
_OF_PANES = ("pane_start", "pane_end", "rows", "state", "firings", "unfired", "next", *_WAITS_FOR, "watermark")
"""Columns of `panes`; the others are those of the partition."""
_BEFORE = "_before"


@dataclass(frozen=True, kw_only=True)
class OpenPanes(FirstRows):
    """Open panes.

    `open_panes` is how many there are, each once; None for windows by row. `states` are those shown; none: all are.
    """

    open_panes: int | None
    states: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return them as JSON-able fields."""
        return {name: value for name, value in super().fields().items() if self.states or name != "states"}

    def _described(self) -> Iterator[Part]:
        number = format_number(self.open_panes)
        if not self.rows:
            yield f"none is {' or '.join(self.states)}; open panes: {number}" if self.states else "no open panes"
            return
        yield from super()._described()
        if self.open_panes is not None:
            yield f"open panes: {number}, each once, whichever partitions have rows in it"

    def row_shown(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the partition, the pane, and what it waits for."""
        return {
            **{name: value for name, value in row.items() if name not in _OF_PANES},
            "pane": f"{row['pane_start']}/{row['pane_end']}",
            **{name: row[name] for name in ("rows", "state", "firings")},
            "waits for": waits_text(row),
        }


def waits_text(pane: Mapping[str, Any]) -> str:
    """Return what an open pane waits for.

    >>> times = {"fires_at": "11:00", "closes_at": "12:00", "next_clock": None}
    >>> waits_text({"state": "open", "next": "fire", "next_rows": 2, **times})
    'watermark 11:00 to fire, or 2 more rows'
    """
    at = f"watermark {pane['closes_at'] if pane['fires_at'] is None else pane['fires_at']}"
    parts = [f"{'any greater watermark' if pane['state'] == 'overdue' else at} to {pane['next']}"]
    if (rows := pane["next_rows"]) is not None:
        parts.append(f"{rows} more row{'s' if rows != 1 else ''}")
    if pane["next_clock"] is not None:
        parts.append(f"the wall clock at {pane['next_clock']}")
    return ", or ".join(parts)


class _ChangedRows(FirstRows):
    def row_shown(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a row with `before -> after` where it has changed; of one that went, what it had."""
        shown = {}
        for name, value in row.items():
            if name.endswith(_BEFORE) and name.removesuffix(_BEFORE) in row:
                continue
            before = row.get(f"{name}{_BEFORE}", value)
            has_changed = row["change"] == "changed" and before != value
            shown[name] = f"{before} -> {value}" if has_changed else before if row["change"] == "went" else value
        return shown


@dataclass(frozen=True, kw_only=True)
class ChangedResults(_ChangedRows):
    """Which results of a window, None for the only one, came, went or changed; or why that is not known."""

    window: str | None
    why_not: str | None = None

    def fields(self) -> dict[str, Any]:
        """Return them as JSON-able fields."""
        return {name: value for name, value in super().fields().items() if self.why_not or name != "why_not"}

    def _described(self) -> Iterator[Part]:
        of = f" of {self.window}" if self.window else ""
        if self.why_not is not None:
            yield f"results{of} are not shown: {self.why_not}"
        elif not self.rows:
            yield f"no results{of}"
        else:
            yield f"results{of}"
            yield from super()._described()


@dataclass(frozen=True, kw_only=True)
class Changes(_ChangedRows):
    """What has changed between two states: of what is open, and of the results of each window.

    `end` is what a pane that went has become; None: that is not known.
    """

    results: tuple[ChangedResults, ...]
    if_none: str = "no differences in what is open"
    end: str | None = None
    _not_in_json: ClassVar[Collection[str]] = ("if_none", "end")

    def row_shown(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a row as of any change; of a pane that went, what has become of it, too."""
        shown = super().row_shown(row)
        if self.end is None or row["change"] != "went" or "state" not in shown:
            return shown
        return {**shown, "state": f"{shown['state']} -> {self.end}"}

    def fields(self) -> dict[str, Any]:
        """Return them as JSON-able fields."""
        return {**super().fields(), "results": [window.fields() for window in self.results]}

    def _described(self) -> Iterator[Part]:
        yield from super()._described()
        for window in self.results:
            yield ""
            yield window
