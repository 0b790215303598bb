"""The charts of a report as SVG. Each is drawn for a width; the page gives the kinds of shapes their colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from panekeeper.diagnostics.report.figures import PaneLife
from panekeeper.framework.declarations.svg import Canvas
from panekeeper.state.duration_text import duration_text

_LEFT, _RIGHT, _TOP, _AXIS = 62, 12, 10, 24
_TICK_PIXELS = 92
_MICRO = 1_000_000
_LANE, _GAP = 18, 5
_STEPS = [
    *(timedelta(seconds=number) for number in (1, 2, 5, 10, 15, 30)),
    *(timedelta(minutes=number) for number in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=number) for number in (1, 2, 3, 6, 12)),
    *(timedelta(days=number) for number in (1, 2, 7, 14, 28, 91, 182, 365, 1826, 3652, 36524)),
]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Values, one for each place of a chart; None where there is none."""

    kind: str
    name: str
    values: Sequence[float | None]


@dataclass(frozen=True, kw_only=True)
class _Plot:
    """Where the values of a chart are on its canvas."""

    canvas: Canvas
    width: int
    height: int

    @property
    def right(self) -> float:
        return self.width - _RIGHT

    @property
    def bottom(self) -> float:
        return self.height - _AXIS

    def x(self, part: float) -> float:
        """Return the place of a part of the width."""
        return _LEFT + part * (self.right - _LEFT)

    def y(self, part: float) -> float:
        """Return the place of a part of the height, from below."""
        return self.bottom - part * (self.bottom - _TOP)

    def rules(self, top: float, shown: Callable[[float], str]) -> None:
        """Draw lines for values from 0 to `top`; those of counts are whole."""
        for value in _round_steps(top, 1 if shown is count_text else 0):
            y = self.y(value / top)
            self.canvas.line("grid", _LEFT, y, self.right, y)
            self.canvas.text("m", _LEFT - 8, y + 4, shown(value), "end")

    def times(self, first: int, last: int) -> None:
        """Draw lines for times from one to another, in us."""
        texts = dict[int, str]()
        for at in _time_steps(first, last, int((self.right - _LEFT) / _TICK_PIXELS)):
            x = self.x((at - first) / (last - first))
            self.canvas.line("grid", x, _TOP, x, self.bottom)
            texts[at] = _clock(at, last - first)
            self.canvas.text("m", min(max(x, _LEFT + 20), self.right - 24), self.height - 8, texts[at], "middle")

    def svg(self) -> str:
        """Return the picture."""
        return self.canvas.svg(self.width, self.height)


def bars(
    title: str,
    labels: Sequence[str],
    series: Sequence[Series],
    width: int,
    shown: Callable[[float], str],
    marks: Mapping[int, str] | None = None,
) -> str:
    """Return bars, one for each label, made of the values of each series; `marks`: place -> what came just before."""
    plot = _Plot(canvas=Canvas(title), width=width, height=190)
    sums = [sum(layer.values[at] or 0 for layer in series) for at in range(len(labels))]
    top = max(sums, default=0) or 1
    plot.rules(top, shown)
    step = 1 / max(1, len(labels))
    box = step * (plot.right - _LEFT)
    thick = min(26.0, max(1.0, box * 0.74))
    for at, label in enumerate(labels):
        middle, y = plot.x((at + 0.5) * step), 0.0
        parts = [f"{layer.name} {shown(value)}" for layer in series if (value := layer.values[at])]
        for layer in series:
            if value := layer.values[at]:
                low, y = y, y + value / top
                height = plot.y(low) - plot.y(y)
                plot.canvas.rect(
                    layer.kind, middle - thick / 2, plot.y(y), thick, height, tip="\n".join([label, *parts])
                )
    for at, text in (marks or {}).items():
        x = plot.x(at * step)
        plot.canvas.line("down", x, _TOP, x, plot.bottom, 'stroke-dasharray="4 3"')
        plot.canvas.rect("hit", x - 5, _TOP, 10, plot.bottom - _TOP, tip=text)
    plot.canvas.line("axis", _LEFT, plot.bottom, plot.right, plot.bottom)
    every = max(1, math.ceil(64 / box))
    for at in range(0, len(labels), every):
        plot.canvas.text("m", plot.x((at + 0.5) * step), plot.height - 8, labels[at], "middle")
    return plot.svg()


def line(title: str, labels: Sequence[str], series: Series, width: int, shown: Callable[[float], str]) -> str:
    """Return a line through the values that are known, over a filled ground."""
    plot = _Plot(canvas=Canvas(title), width=width, height=150)
    top = max((value for value in series.values if value is not None), default=0) or 1
    plot.rules(top, shown)
    step = 1 / max(1, len(labels))
    points = [
        (plot.x((at + 0.5) * step), plot.y(value / top)) for at, value in enumerate(series.values) if value is not None
    ]
    path = " ".join(f"{'L' if at else 'M'}{x:.1f} {y:.1f}" for at, (x, y) in enumerate(points))
    if len(points) > 1:
        ends = f"L{points[-1][0]:.1f} {plot.bottom:.1f} L{points[0][0]:.1f} {plot.bottom:.1f} Z"
        plot.canvas.add(f'<path class="pk-{series.kind}-area" d="{path} {ends}"/>')
        plot.canvas.add(f'<path class="pk-{series.kind}-line" d="{path}"/>')
    radius = 2.5 if len(points) > 60 else 3.5  # noqa: PLR2004 -- so many do not touch each other
    for (x, y), (at, value) in zip(
        points, ((at, value) for at, value in enumerate(series.values) if value is not None), strict=True
    ):
        dot = f'<circle class="pk-{series.kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'
        plot.canvas.add(dot, f"{labels[at]}\n{series.name} {shown(value)}")
    plot.canvas.line("axis", _LEFT, plot.bottom, plot.right, plot.bottom)
    every = max(1, math.ceil(64 / (step * (plot.right - _LEFT))))
    for at in range(0, len(labels), every):
        plot.canvas.text("m", plot.x((at + 0.5) * step), plot.height - 8, labels[at], "middle")
    return plot.svg()


def watermark(points: Sequence[tuple[int, int]], gaps: Sequence[tuple[int, int]], width: int) -> str:
    """Return the watermark over the wall clock, both in us, with the present where it is near, and with downtimes."""
    plot = _Plot(canvas=Canvas("The watermark over the wall clock"), width=width, height=230)
    first, last = points[0][0], points[-1][0]
    last = max(last, first + _MICRO)
    low, high = min(mark for _, mark in points), max(mark for _, mark in points)
    has_present = is_near_present(points)
    if has_present:
        low, high = min(low, first), last
    high = max(high, low + _MICRO)

    def x(at: int) -> float:
        return plot.x((min(max(at, first), last) - first) / (last - first))

    def y(mark: int) -> float:
        return plot.y((min(max(mark, low), high) - low) / (high - low))

    for stopped, started in gaps:
        tip = f"down for {duration_text((started - stopped) / _MICRO)}"
        plot.canvas.rect("gap", x(stopped), _TOP, max(3, x(started) - x(stopped)), plot.bottom - _TOP, tip=tip)
    plot.times(first, last)
    for mark in _time_steps(low, high, 5):
        plot.canvas.line("grid", _LEFT, y(mark), plot.right, y(mark))
        plot.canvas.text("m", _LEFT - 8, y(mark) + 4, _clock(mark, high - low), "end")
    if has_present:
        begin = max(first, low)
        plot.canvas.line("present", x(begin), y(begin), x(last), y(last), 'stroke-dasharray="5 4"')
    path, before = "", 0.0
    for at, (when, mark) in enumerate(points):
        path += f" H{x(when):.1f} V{y(mark):.1f}" if at else f"M{x(when):.1f} {y(mark):.1f}"
        before = x(when)
    if before < plot.right:
        path += f" H{plot.right:.1f}"
    plot.canvas.add(f'<path class="pk-mark-line" d="{path}"/>')
    radius = 2 if len(points) > 60 else 3  # noqa: PLR2004 -- as above
    for when, mark in points:
        tip = f"{_full(when)}\nwatermark {_full(mark)}\n{duration_text((when - mark) / _MICRO)} behind"
        plot.canvas.add(f'<circle class="pk-mark" cx="{x(when):.1f}" cy="{y(mark):.1f}" r="{radius}"/>', tip)
    plot.canvas.line("axis", _LEFT, plot.bottom, plot.right, plot.bottom)
    return plot.svg()


def is_near_present(points: Sequence[tuple[int, int]]) -> bool:
    """Return whether the present can be drawn beside a watermark: it is not years ahead, as in a replay."""
    (first, low), (last, high) = points[0], points[-1]
    return 0 <= last - high <= 4 * max(high - low, last - first)


def timeline(panes: Sequence[PaneLife], mark: int | None, width: int) -> str:
    """Return panes at their event time, in as many lanes as overlap; the watermark is a line. By the width, the last.

    A pane is coloured by what has become of it; a dot for each refinement, up to five.
    """
    shown = _fitting(panes, width)
    first, last = min(pane.start for pane in shown), max(pane.end for pane in shown)
    lanes = _lanes(shown)
    height = _TOP + 18 + max(lanes) * (_LANE + _GAP) + _LANE + 10 + _AXIS
    plot = _Plot(canvas=Canvas("The panes at their event time"), width=width, height=height)
    left, right = 12, width - _RIGHT

    def x(us: int) -> float:
        return left + (min(max(us, first), last) - first) / (last - first) * (right - left)

    for at in _time_steps(first, last, int((right - left) / _TICK_PIXELS)):
        plot.canvas.line("grid", x(at), _TOP + 14, x(at), plot.bottom)
        plot.canvas.text("m", min(max(x(at), left + 22), right - 26), height - 8, _clock(at, last - first), "middle")
    for pane, lane in zip(shown, lanes, strict=True):
        top, wide = _TOP + 18 + lane * (_LANE + _GAP), x(pane.end) - x(pane.start)
        gap = 1.5 if wide > 5 else 0.3  # noqa: PLR2004 -- pixels
        plot.canvas.rect(f"p-{pane.state}", x(pane.start), top, wide - gap, _LANE, 'rx="3"', pane_text(pane))
        for dot in range(min(pane.refinements, 5, int(wide // 7))):
            place = f'cx="{x(pane.start) + 6 + 6 * dot:.1f}" cy="{top + _LANE / 2:.1f}"'
            plot.canvas.add(f'<circle class="pk-refined-dot" {place} r="2" pointer-events="none"/>')
    if mark is not None and first <= mark <= last:
        plot.canvas.line("mark-edge", x(mark), _TOP + 4, x(mark), plot.bottom)
        end = x(mark) > width / 2
        plot.canvas.text("t", x(mark) + (-5 if end else 5), _TOP + 8, "watermark", "end" if end else "start")
    return plot.svg()


def pane_text(pane: PaneLife) -> str:
    """Return what became of a pane, in lines."""
    state = {"open": "not fired yet", "fired": "fired", "refined": "fired and refined", "closed": "closed"}[pane.state]
    lines = [f"{_full(pane.start)} to {_full(pane.end)}", state, f"{pane.partitions:,} partitions"]
    if pane.firings:
        lines.append(f"{pane.firings:,} results, refined up to {pane.refinements} times")
    if pane.first is not None:
        batches = f"batch {pane.first:,}" if pane.first == pane.last else f"batches {pane.first:,} to {pane.last:,}"
        lines.append(f"fired in {batches}")
    return "\n".join(lines)


def _fitting(panes: Sequence[PaneLife], width: int) -> list[PaneLife]:
    """Return the last panes that can be told apart at a width: on the average each is at least nine pixels wide."""
    newest = sorted(panes, key=lambda pane: (pane.end, pane.start))
    for skip in range(len(newest)):
        rest = newest[skip:]
        span = max(pane.end for pane in rest) - min(pane.start for pane in rest)
        mean = sum(pane.end - pane.start for pane in rest) / len(rest)
        if span <= 0 or mean / span * width >= 9:  # noqa: PLR2004 -- pixels
            return rest
    return newest[-1:]


def _lanes(panes: Sequence[PaneLife]) -> list[int]:
    """Return the lane of each pane: the first one in which nothing overlaps it."""
    order = sorted(range(len(panes)), key=lambda at: (panes[at].start, panes[at].end))
    ends, lanes = list[int](), [0] * len(panes)
    for at in order:
        free = next((lane for lane, end in enumerate(ends) if end <= panes[at].start), len(ends))
        if free == len(ends):
            ends.append(0)
        ends[free], lanes[at] = panes[at].end, free
    return lanes


def count_text(value: float) -> str:
    """Return a number of things."""
    return f"{value:,.0f}"


def _round_steps(top: float, least: float = 0) -> Iterator[float]:
    """Yield round values from 0 to the top, at most five, which differ by `least` or more.

    >>> list(_round_steps(23)), list(_round_steps(2, 1))
    ([0.0, 5.0, 10.0, 15.0, 20.0], [0, 1, 2])
    """
    step = 10.0 ** math.floor(math.log10(top))
    step = next(candidate for candidate in (step / 5, step / 2, step, 2 * step, 5 * step) if top / candidate < 5)  # noqa: PLR2004
    step = max(step, least)
    for number in range(int(top / step) + 1):
        yield number * step


def _time_steps(first: int, last: int, most: int) -> Iterator[int]:
    """Yield round times within a span, in us, at most so many."""
    steps = [span // timedelta(microseconds=1) for span in _STEPS]
    step = next((candidate for candidate in steps if (last - first) / candidate <= max(1, most)), steps[-1])
    yield from range(first + (-first) % step, last + 1, step)


_DAY = 86_400 * _MICRO
_YEAR = 365 * _DAY


def _clock(us: int, span: int) -> str:
    """Return a time in UTC as finely as a span of us needs it: no two neighbours of `_time_steps` look the same."""
    at = datetime.fromtimestamp(us / _MICRO, UTC)
    if span >= _YEAR:  # its steps are of months or years
        return f"{at:%Y-%m}"
    if us % _DAY == 0:
        return f"{at.day} {at:%b}"
    return f"{at:%H:%M}" if us % (60 * _MICRO) == 0 else f"{at:%H:%M:%S}"


def _full(us: int) -> str:
    return f"{datetime.fromtimestamp(us / _MICRO, UTC):%Y-%m-%d %H:%M:%S}".removesuffix(":00")
