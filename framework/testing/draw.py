"""`draw`: a window as a picture of what it makes of rows, played in memory.

Panes: from top to bottom what happens, at its event time; the watermark is the edge of the shade. Below them a bar for
each pane, with what it fired. Windows in arrival order: the rows from left to right, and a bar over the content of each
firing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.declarations import aggregates as agg
from panekeeper.framework.declarations.calendar import Calendar
from panekeeper.framework.declarations.durations import to_us
from panekeeper.framework.declarations.errors import DeclarationError, did_you_mean
from panekeeper.framework.declarations.policies import Delta, Time
from panekeeper.framework.declarations.svg import Canvas
from panekeeper.framework.declarations.windows import (
    ArrivalWindow,
    Batched,
    EventTimeWindow,
    Session,
    SlidingByRow,
    TimeInterval,
    Window,
)
from panekeeper.framework.engine.flow.spark_watermark import watermark_behind
from panekeeper.framework.testing.results import Results
from panekeeper.framework.testing.run import columns_of, require_dict, run
from panekeeper.framework.testing.script import Clock, Flush, Step, Watermark, time_us
from panekeeper.state.duration_text import us_text

_ROW = "row_of_drawing"
"""Column with the number of a row; of a result, with those of its rows."""
_OF_LOG = {
    *("pane_start", "pane_end", "session_start", "session_end", "last_row", "fired_at", "refinement", "is_final"),
    *("reason", "batch", "firing", "window_mark", "replaces", "rank", "op", _ROW),
}
"""Columns of a result that are drawn, or say nothing in a drawing."""
_WIDTH, _LEFT, _RIGHT, _STEP, _LANE = 780, 180, 24, 20, 26
_MOST_SLICES = 80
_A_DAY_US = 1_715_731_200_000_000
"""In May, in every calendar; other examples begin at the epoch."""
_STYLE = """
.pk-bg{fill:#fff}.pk-t{fill:#1f2328}.pk-m{fill:#6e7781}.pk-row{fill:#0969da}.pk-late{fill:#bf8700}
.pk-drop{stroke:#cf222e;stroke-width:2}.pk-pane{fill:#ddf4ff;stroke:#54aeff}.pk-age{fill:none;stroke:#54aeff}
.pk-past{fill:#eef1f4}.pk-line{stroke:#8c959f}
@media (prefers-color-scheme:dark){.pk-bg{fill:#0d1117}.pk-t{fill:#e6edf3}.pk-m{fill:#8b949e}.pk-row{fill:#58a6ff}
.pk-late{fill:#d29922}.pk-drop{stroke:#f85149}.pk-pane{fill:#0c2d6b;stroke:#388bfd}.pk-age{stroke:#388bfd}
.pk-past{fill:#1c2128}.pk-line{stroke:#6e7681}}
"""


@dataclass(frozen=True)
class Drawing:
    """A picture, which a notebook shows.

    Attributes:
        svg: its text, for light and dark pages.
    """

    svg: str

    def __repr__(self) -> str:
        return f"Drawing of {len(self.svg):,} characters of SVG, which a notebook shows"

    def _repr_svg_(self) -> str:
        return self.svg


def draw(declaration: Window | Mapping[str, Any], rows: Sequence[Any] | None = None) -> Drawing:
    """Draw what a window makes of rows: panes, slices, late rows, refinements; or the content of each firing.

    Args:
        declaration: a window, or a dict of the arguments of `run` but for the script, with aggregates.
        rows: what happens, in order: rows as dicts, `Clock(...)`, `Watermark(...)`, or lists of rows. Each row is a
            micro-batch. Of a window alone, rows have the columns `at`, its event time, and `n`. Not given: an example
            that the window shows its rules by.

    Returns:
        The drawing; `.svg` is its text.

    Raises:
        DeclarationError: as `run`; such a dict without aggregates, rows, or a window; a window without an example,
            because it goes by columns of rows.
    """
    given = dict(declaration) if isinstance(declaration, Mapping) else None
    window = declaration if given is None else given.get("window")
    if not isinstance(window, Window) or (given is not None and not given.get("aggregates")):
        description = type(declaration).__name__ if given is None else f"a dict of {', '.join(given) or 'nothing'}"
        raise DeclarationError(
            "draw() takes a window, as draw(TimeInterval(60)), or a dict of the arguments of run() with window and "
            f"aggregates, with rows; this is {description}"
        )
    if given is not None:
        require_dict("aggregates", given["aggregates"], '{"n": agg.count()}')
    if given is None:
        given = {"window": window, "schema": "n bigint", "aggregates": {"rows": agg.count()}}
        if not isinstance(window, ArrivalWindow):
            given |= {"schema": "at timestamp, n bigint", "event_time": "at"}
    elif rows is None:
        raise DeclarationError(
            "draw() of a dict with aggregates has no rows; give them as the second argument, such as "
            "[{'taxi': '7', 'at': '2024-05-01'}]"
        )
    if rows is None:
        rows, columns = _example(window)
        given["schema"] += columns
    else:
        _require_known_columns(rows, given.get("schema"), is_alone=isinstance(declaration, Window))
    played = _Played.of(given, rows)
    return Drawing(_drawn_rows(window, played) if isinstance(window, ArrivalWindow) else _drawn_panes(window, played))


def _require_known_columns(rows: Sequence[Any], schema: Any, *, is_alone: bool) -> None:
    """Raise `DeclarationError` for a column of a row that the schema does not have; `is_alone`: of a window alone."""
    known = columns_of(schema, "draw()").names
    for item in _items(rows):
        unknown = next((name for name in item if name not in known), None) if isinstance(item, Mapping) else None
        if unknown is not None and is_alone:
            raise DeclarationError(
                f"a row has the unknown column {unknown!r}: those of a window alone are {' and '.join(known)}; to draw "
                "other rows, give a dict of the arguments of run() with window, schema and aggregates in its place"
            )
        if unknown is not None:
            hint = did_you_mean(str(unknown), known)
            raise DeclarationError(f"a row has the unknown column {unknown!r}{hint} (columns: {', '.join(known)})")


def _items(rows: Sequence[Any]) -> list[Any]:
    """Return what happens, item by item."""
    return [row_or_step for item in rows for row_or_step in (item if isinstance(item, list | tuple) else [item])]


@dataclass(frozen=True, kw_only=True)
class _Played:
    """What happened, item by item, and the results.

    Attributes:
        items: rows, `Clock`, `Watermark`, `Restart` and `Flush`; each is a micro-batch.
        results: with the numbers of the items that are rows in `_ROW`.
        keys: partition columns.
        event_time: column; empty if none.
        delay_us: of a watermark that follows the rows.
    """

    items: list[Any]
    results: Results
    keys: tuple[str, ...]
    event_time: str
    delay_us: int

    @classmethod
    def of(cls, declaration: dict[str, Any], rows: Sequence[Any]) -> _Played:
        from pyspark.sql.types import LongType

        items = _items(rows)
        numbered = [{**item, _ROW: number} if isinstance(item, Mapping) else item for number, item in enumerate(items)]
        columns = columns_of(declaration.get("schema"), "draw()").add(_ROW, LongType())
        aggregates = {
            **declaration["aggregates"],
            **({} if declaration.get("event_time") else {_ROW: agg.collect(_ROW)}),
        }
        keys = declaration.get("partition_by") or ()
        return cls(
            items=items,
            results=run(
                **declaration | {"schema": columns, "aggregates": aggregates},
                script=[[item] if isinstance(item, Mapping) else item for item in numbered],
            ),
            keys=(keys,) if isinstance(keys, str) else tuple(keys),
            event_time=declaration.get("event_time") or "",
            delay_us=to_us(declaration.get("watermark", 0), "watermark"),
        )

    @property
    def refused(self) -> dict[int, str]:
        """The items that are in the quarantine, with the reason."""
        return {row["row"][_ROW]: row["reason"] for row in self.results.quarantine if _ROW in row["row"]}

    def times(self) -> dict[int, int]:
        """Return the event time, us, of each item that is a row with one."""
        times = ((at, item.get(self.event_time)) for at, item in enumerate(self.items) if isinstance(item, Mapping))
        return {at: time_us(time, self.event_time) for at, time in times if time is not None}

    def watermarks(self) -> list[int | None]:
        """Return the watermark, us, at each item."""
        times, refused = self.times(), self.refused
        if any(isinstance(item, Watermark) for item in self.items):
            marks, now = list[int | None](), None
            for item in self.items:
                now = item.us if isinstance(item, Watermark) else now
                marks.append(now)
            return marks
        good = [
            time if at not in refused or refused[at] == "LATE" else None for at, time in _by_item(times, self.items)
        ]
        latest = [max((time for time in good[:at] if time is not None), default=None) for at in range(len(good))]
        return [watermark_behind(latest_us, self.delay_us) for latest_us in latest]

    def text(self, result: Mapping[str, Any]) -> str:
        """Return what a firing says."""
        shown = ", ".join(f"{name} {value}" for name, value in result.items() if name not in {*_OF_LOG, *self.keys})
        if result.get("op") == -1:
            return f"takes back {shown}"
        reason = result["reason"]
        return shown if reason == "WATERMARK" else f"{reason.lower()}: {shown}"

    def is_replaced(self, start: int, key: str) -> bool:
        """Whether a session became part of one that begins at another time."""
        others = (row for row in self.results if _bounds(row)[0] != start and self.key(row) == key)
        return any(
            start == time_us(replaced_start, "replaces")
            for row in others
            for replaced_start in row.get("replaces") or ()
        )

    def key(self, result: Mapping[str, Any]) -> str:
        """Return the partition of a result."""
        return " ".join(str(result[name]) for name in self.keys if name in result)


def _by_item(times: Mapping[int, int], items: Sequence[Any]) -> Iterator[tuple[int, int | None]]:
    return ((at, times.get(at)) for at in range(len(items)))


class _Canvas(Canvas):
    """A picture on a page of its own."""

    def dot(self, kind: str, x: float, y: float) -> None:
        """Draw a row, or a cross for one that is refused."""
        if kind == "drop":
            self.line(kind, x - 4, y - 4, x + 4, y + 4)
            self.line(kind, x - 4, y + 4, x + 4, y - 4)
        else:
            self.add(f'<circle class="pk-{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>')

    def page(self, height: float) -> str:
        """Return the picture on its ground, with its colours."""
        ground = '<rect class="pk-bg" width="100%" height="100%"/>'
        return self.svg(_WIDTH, height, f"<style>{_STYLE}</style>\n{ground}") + "\n"


def _legend(canvas: _Canvas, y: float, *, has_panes: bool) -> float:
    """Draw what the marks mean and return the height of the picture."""
    x = _LEFT
    marks = [("row", "row")]
    marks += [("late", "late row"), ("drop", "refused")] if has_panes else []
    for kind, text in marks:
        canvas.dot(kind, x, y - 4)
        canvas.text("m", x + 9, y, text)
        x += 85
    if has_panes:
        canvas.rect("past", x, y - 10, 14, 12)
        canvas.text("m", x + 20, y, "behind the watermark")
        canvas.rect("age", x + 175, y - 10, 14, 12, 'stroke-dasharray="3 3"')
        canvas.text("m", x + 195, y, "takes late rows")
    return y + 14


def _drawn_panes(window: EventTimeWindow, played: _Played) -> str:
    times = played.times()
    bounds = [(_bounds(row), row) for row in played.results]
    ends = [*times.values(), *(us for (start, end), _ in bounds for us in (start, end))] or [0]
    first, last = min(ends), max(ends)
    first, last = first - (last - first) // 30, last + max(1, (last - first) // 8)

    def x(us: int) -> float:
        return _LEFT + (min(max(us, first), last) - first) / (last - first) * (_WIDTH - _LEFT - _RIGHT)

    canvas, top = _Canvas(repr(window)), 16
    _draw_items(canvas, played, x, top)
    bottom = top + _STEP * len(played.items)
    canvas.line("line", _LEFT, bottom, _WIDTH - _RIGHT, bottom)
    for us in _slices(window, first, last):
        canvas.line("line", x(us), bottom, x(us), bottom + 5)
    canvas.text("m", 12, bottom + 16, "slices of event time" if isinstance(window, TimeInterval) else "event time")
    for us in (min(ends), max(ends)):
        canvas.text("m", x(us), bottom + 18, _clock(us), "middle")
    y, lanes = bottom + 28.0, dict[Any, list[Mapping[str, Any]]]()
    for (start, end), row in sorted(bounds, key=lambda bounded_row: (bounded_row[0][0], played.key(bounded_row[1]))):
        lanes.setdefault((start, played.key(row), isinstance(window, Session) or end), []).append(row)
    for (start, key, _), rows in sorted(lanes.items()):
        end = _bounds(rows[-1])[1]
        canvas.text("t", 12, y + 16, f"{key} [{_clock(start)}, {_clock(end)})".strip())
        if window.age_us:
            canvas.rect("age", x(end), y + 2, x(end + window.age_us) - x(end), _LANE - 6, 'stroke-dasharray="3 3"')
        canvas.rect("pane", x(start), y + 2, x(end) - x(start), _LANE - 6, 'rx="3"')
        replaced = ["replaced"] if played.is_replaced(start, key) else []
        text, is_right = " → ".join([*map(played.text, rows), *replaced]), x(start) > _WIDTH * 0.55
        canvas.text("t", x(end) - 5 if is_right else x(start) + 5, y + 16, text, "end" if is_right else "start")
        y += _LANE
    return canvas.page(_legend(canvas, y + 18, has_panes=True))


def _draw_items(canvas: _Canvas, played: _Played, x: Callable[[int], float], top: float) -> None:
    """Draw what happens, a line for each item, at its event time."""
    times, refused, marks = played.times(), played.refused, played.watermarks()
    for at, mark in enumerate(marks):
        if mark is not None and x(mark) > _LEFT:
            canvas.rect("past", _LEFT, top + _STEP * at, x(mark) - _LEFT, _STEP)
    for at, item in enumerate(played.items):
        y, before = top + _STEP * (at + 0.5), marks[at]
        if not isinstance(item, Mapping):
            canvas.text("m", 12, y + 4, _named(item))
        elif at in times:
            kind = "drop" if at in refused else "late" if before is not None and times[at] < before else "row"
            canvas.text("t", 12, y + 4, f"row {_clock(times[at])}" + (f"  {refused[at]}" if at in refused else ""))
            canvas.dot(kind, x(times[at]), y)


def _drawn_rows(window: ArrivalWindow, played: _Played) -> str:
    canvas, y = _Canvas(repr(window)), 30.0
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(played.items))
    places = {at: _LEFT + step * (at + 0.5) for at in range(len(played.items))}
    canvas.text("m", 12, y + 4, "as rows arrive")
    height = y + 16 + _LANE * len(played.results)
    for at, item in enumerate(played.items):
        if isinstance(item, Mapping):
            canvas.dot("drop" if at in played.refused else "row", places[at], y)
        else:
            canvas.line("line", places[at], y - 8, places[at], height, 'stroke-dasharray="2 4"')
            canvas.text("m", places[at], y - 14, _named(item), "middle")
    y += 16
    for row in played.results:
        row_places = [places[at] for at in row[_ROW] or []]
        canvas.text("t", 12, y + 16, f"{played.key(row)} {played.text(row)}".strip())
        if row_places:
            canvas.rect("pane", min(row_places) - 9, y + 2, max(row_places) - min(row_places) + 18, _LANE - 6, 'rx="3"')
        for place in row_places:
            canvas.dot("row", place, y + _LANE / 2 - 1)
        y += _LANE
    return canvas.page(_legend(canvas, y + 18, has_panes=False))


def _bounds(row: Mapping[str, Any]) -> tuple[int, int]:
    kind = "pane" if "pane_start" in row else "session"
    return time_us(row[f"{kind}_start"], kind), time_us(row[f"{kind}_end"], kind)


def _slices(window: EventTimeWindow, first: int, last: int) -> Iterator[int]:
    """Yield where slices begin, if there are few enough to see them."""
    if not isinstance(window, TimeInterval) or isinstance(window, Calendar):
        return
    size, offset = Geometry.of(window).slice_us, window.offset_us
    if (last - first) // size <= _MOST_SLICES:
        yield from range(first + (offset - first) % size, last, size)


def _named(item: Step) -> str:
    match item:
        case Watermark():
            return f"watermark {_clock(item.us)}"
        case Clock():
            return f"+{us_text(item.us)}"
        case Flush():
            return "flush"
    return "restart"


def _clock(us: int) -> str:
    """Return a time of the day, or a day if it begins one after the epoch."""
    at = datetime.fromtimestamp(us / 1_000_000, UTC)
    if at.year > 1970:  # noqa: PLR2004
        return f"{at:%m-%d}" if us % 86_400_000_000 == 0 else f"{at:%m-%d %H:%M}"
    return f"{at:%H:%M:%S}".removesuffix(":00") if us % 60_000_000 == 0 else f"{at:%H:%M:%S}"


def _example(window: Window) -> tuple[list[Any], str]:
    """Return rows that show the rules of a window, and further columns of theirs."""
    if isinstance(window, Session):
        if window.has_column_gap:
            raise DeclarationError(
                f"draw(): the gap is the column {window.gap!r}; give a dict of the arguments of run(), and rows"
            )
        gap = to_us(window.gap, "gap")
        return _timed(gap, 0.2, 0.8, 2.6, Watermark(1.9), 1.7, Watermark(3.8), Watermark(4.5), 1.0, Watermark(6)), ""
    if isinstance(window, SlidingByRow):
        marks = Watermark(1.9), 1.4, Watermark(2.3), Watermark(4)
        return _timed(window.difference_us, 1.2, 1.6, 2.1, *marks), ""
    if isinstance(window, TimeInterval):
        return _example_of_panes(window), ""
    policies = [policy for name in ("evict", "trigger") for policy in _policies(getattr(window, name, None))]
    spans = [to_us(policy.size, "Time") for policy in policies if isinstance(policy, Time)]
    if isinstance(window, Batched) and window.within is not None:
        spans = [to_us(window.every, "every")]
    deltas = {policy.attribute: policy.size for policy in policies if isinstance(policy, Delta)}
    sizes = {name: size for name, size in deltas.items() if isinstance(size, int | float)}
    if sizes != deltas:
        raise DeclarationError(
            f"draw(): the window goes by {', '.join(deltas)}; give a dict of the arguments of run(), and rows"
        )
    rows: list[Any] = []
    for number in range(1, 9):
        rows.append({"n": number, **{name: size * 0.4 * number for name, size in sizes.items()}})
        if spans and number % 2 == 0:
            rows.append(Clock(min(spans) / 1_000_000 * 0.6))
    return rows, "".join(f", {name} double" for name in deltas)


def _policies(policy: Any) -> list[Any]:
    """Return a policy, or those of which it is made."""
    inner = [part for part in vars(policy).values() if isinstance(part, Time | Delta)] if policy is not None else []
    return inner or ([] if policy is None else [policy])


def _timed(unit: int, *items: Any, first: int = 0) -> list[Any]:
    """Return rows and watermarks at these parts of a unit."""

    def at(part: Any) -> float:
        return float((first + round(part * unit)) / 1_000_000)

    return [Watermark(at(item.to)) if isinstance(item, Watermark) else {"at": at(item), "n": 1} for item in items]


def _example_of_panes(window: TimeInterval) -> list[Any]:
    geometry = Geometry.of(window)
    pane = geometry.last_ending_by(_A_DAY_US) + 1 if isinstance(window, Calendar) else 0
    first, last = geometry.start(pane), geometry.end(pane)
    end = geometry.end(pane + 1)
    length, age = last - first, window.age_us
    marks = [last - first, last - first + min(age, length) // 2, end - first, max(end, last + age) - first]
    marks = [max(marks[: place + 1]) for place in range(len(marks))]
    items: list[Any] = [length // 4, length * 7 // 10, (last - first) + (end - last) // 2, Watermark(marks[0])]
    items += [length * 45 // 100, Watermark(marks[1]), (end - first) * 9 // 10]
    items += [Watermark(mark) for mark in dict.fromkeys(marks[2:]) if mark > marks[1]]
    items += [length * 6 // 10, Watermark(marks[3] + age)]
    return _timed(1, *items, first=first)
