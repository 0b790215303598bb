"""The page of a report: cards with charts and tables, in colours for light and dark, in two widths.

Each chart is drawn twice, for wide and for narrow pages, so that its texts have the same size on both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise

from panekeeper.diagnostics.report.charts import (
    Series,
    bars,
    count_text,
    is_near_present,
    line,
    pane_text,
    timeline,
    watermark,
)
from panekeeper.diagnostics.report.figures import OUTCOMES, Batch, Figures, PaneLife
from panekeeper.diagnostics.report.style import STYLE
from panekeeper.framework.declarations.display import format_bytes
from panekeeper.state.checkpoint.clock import format_time
from panekeeper.state.duration_text import duration_text

_WIDE, _HALF, _NARROW = 1112, 532, 326
_MICRO = 1_000_000
_LONGEST = 240
_OUTCOMES = {
    "admitted": "in time",
    "refined_late": "late, pane fired again",
    "dropped_late": "too late",
    "quarantined": "bad",
    "outside": "in no pane",
    "repeated": "repeated",
}
_STATES = {"open": "not fired yet", "fired": "fired", "refined": "fired again", "closed": "closed"}
_LATE_LIMITS = (60, 600, 3600, 6 * 3600, 86_400, 7 * 86_400)


def page(figures: Figures) -> str:
    """Return the page."""
    status = figures.status
    job = escape(status.job or "?")
    cards = "\n".join(card for make in _CARDS for card in make(figures))
    notes = "".join(f"<li>{escape(note)}</li>" for note in figures.notes)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{job}: report</title><link rel="icon" href="data:,">
<style>{STYLE}</style></head><body>
<header><div><h1>{job}</h1><p class="path">{escape(status.checkpoint)}</p></div>
<p class="health {escape(status.health)}"><b>{escape(status.health)}</b>{escape(status.why)}</p></header>
<main>
{_tiles(figures)}
{cards}
</main>
<footer>{f"<ul>{notes}</ul>" if notes else ""}<p>Made at {format_time(figures.now)}. All times are in UTC.</p></footer>
</body></html>
"""


def _tiles(figures: Figures) -> str:
    status, ran = figures.status, figures.batches
    read = sum(sum(batch.rows.values()) for batch in ran)
    late, too_late, bad = (
        sum(batch.rows.get(name, 0) for batch in ran) for name in ("refined_late", "dropped_late", "quarantined")
    )
    times = sorted(batch.seconds for batch in ran)
    tiles = {
        "last batch": None if status.last_commit is None else f"{status.last_commit:,}",
        "rows": f"{read:,}",
        "results": f"{sum(batch.firings for batch in ran):,}",
        "late": f"{late:,}",
        "too late": f"{too_late:,}",
        "missed panes": f"{missed:,}" if (missed := sum(batch.missed_panes for batch in ran)) else None,
        "bad": f"{bad:,}",
        "open panes": next((f"{batch.open_panes:,}" for batch in reversed(ran) if batch.open_panes is not None), None),
        "median batch": duration_text(round(times[len(times) // 2], 2)) if times else None,
        "behind the present": None if status.watermark_lag is None else duration_text(status.watermark_lag),
        "last savepoint": None if status.last_savepoint is None else f"{duration_text(status.last_savepoint.age)} ago",
    }
    shown = (f"<li><b>{escape(value)}</b>{escape(name)}</li>" for name, value in tiles.items() if value is not None)
    return f'<ul class="tiles">{"".join(shown)}</ul>'


def _card(title: str, text: str, content: str, *, half: bool = False) -> str:
    kind = "card half" if half else "card"
    return f'<section class="{kind}"><h2>{escape(title)}</h2><p>{escape(text)}</p>{content}</section>'


def _chart(draw: Callable[[int], str], width: int = _WIDE) -> str:
    return f'<div class="wide">{draw(width)}</div><div class="narrow">{draw(_NARROW)}</div>'


def _legend(kinds: dict[str, str]) -> str:
    shown = "".join(f'<li><i class="key-{kind}"></i>{escape(name)}</li>' for kind, name in kinds.items())
    return f'<ul class="legend">{shown}</ul>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    kinds = [' class="n"' if head in numbers else "" for head in heads]
    head = "".join(f"<th{kind}>{escape(column)}</th>" for column, kind in zip(heads, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _panes(figures: Figures) -> Iterator[str]:
    mark = _last_mark(figures.batches)
    for window in figures.windows:
        panes = [pane for pane in figures.panes if pane.window == window]
        if panes:
            yield _panes_card(f"Panes of {window}" if window else "Panes", panes, mark)


def _panes_card(title: str, panes: Sequence[PaneLife], mark: int | None) -> str:
    picture = _chart(lambda width: timeline(panes, mark, width))
    states = {f"p-{state}": text for state, text in _STATES.items() if any(pane.state == state for pane in panes)}
    if any(pane.refinements for pane in panes):
        states["refined-dot"] = "a refinement"
    rows = [pane_text(pane).split("\n", 3) for pane in reversed(panes[-40:])]
    table = _table(
        ("pane", "state", "partitions", "firings"),
        [(*row[:3], row[3].replace("\n", ", ") if len(row) > 3 else "") for row in rows],  # noqa: PLR2004
    )
    text = "Each bar is a pane at its event time, of all partitions together; those that overlap lie in lanes."
    details = f"<details><summary>The last {len(rows)} as a table</summary>{table}</details>"
    return _card(title, text, _legend(states) + picture + details)


def _last_mark(ran: Sequence[Batch]) -> int | None:
    return next((batch.watermark for batch in reversed(ran) if batch.watermark is not None), None)


def _watermark(figures: Figures) -> Iterator[str]:
    points = [(batch.at + round(batch.seconds * _MICRO), batch.watermark) for batch in figures.batches]
    known = [(at, mark) for at, mark in points if mark is not None]
    if not known:
        return
    gaps = [(outage.stopped, outage.started) for outage in figures.outages]
    lag = (known[-1][0] - known[-1][1]) / _MICRO
    text = f"After the last batch shown it was {duration_text(round(lag, 1))} behind the wall clock."
    keys = {"mark": "watermark"} | ({"present": "the present"} if is_near_present(known) else {})
    keys |= {"gap": "downtime"} if gaps else {}
    yield _card("Watermark", text, _legend(keys) + _chart(lambda width: watermark(known, gaps, width)))


def _rows(figures: Figures) -> Iterator[str]:
    ran = figures.batches
    if not ran:
        yield _card("Batches", "No batch is in the metrics yet.", "")
        return
    series = [outcome for outcome in _outcomes(ran, OUTCOMES) if any(outcome.values)]
    labels, marks = _numbers(ran), _marks(figures)
    keys = {outcome.kind: outcome.name for outcome in series}
    picture = _chart(lambda width: bars("Rows of each batch", labels, series, width, count_text, marks))
    firings = ", ".join(f"{count:,} {reason}" for reason, count in sorted(figures.firings.items()))
    text = "What became of the rows of each batch." + (f" Results in the log: {firings}." if firings else "")
    table = _table(
        ("batch", "began", "rows", "late", "too late", "results", "watermark", "plan", "tables", "open panes"),
        [_batch_row(batch) for batch in reversed(ran[-40:])],
        ("batch", "rows", "late", "too late", "results", "plan", "tables", "open panes"),
    )
    details = f"<details><summary>The last {min(40, len(ran))} as a table</summary>{table}</details>"
    yield _card("Rows", text, _legend(keys) + picture + details)


def _batch_row(batch: Batch) -> tuple[str, ...]:
    return (
        f"{batch.number:,}",
        format_time(batch.at),
        f"{sum(batch.rows.values()):,}",
        f"{batch.rows.get('refined_late', 0):,}",
        f"{batch.rows.get('dropped_late', 0):,}",
        f"{batch.firings:,}",
        "" if batch.watermark is None else format_time(batch.watermark),
        duration_text(batch.plan_seconds),
        "" if batch.tables_seconds is None else duration_text(round(batch.tables_seconds, 3)),
        "" if batch.open_panes is None else f"{batch.open_panes:,}",
    )


def _lateness(figures: Figures) -> Iterator[str]:
    series = [
        outcome for outcome in _outcomes(figures.batches, ("refined_late", "dropped_late")) if any(outcome.values)
    ]
    if not series:
        return
    missed = sum(batch.missed_panes for batch in figures.batches)
    text = f" {count_text(missed)} times a row came too late for a pane, and joined its later ones." if missed else ""
    keys = {outcome.kind: outcome.name for outcome in series}
    labels = _numbers(figures.batches)
    half = bool(figures.late_seconds)
    width = _HALF if half else _WIDE
    picture = _chart(lambda width: bars("Late rows of each batch", labels, series, width, count_text), width)
    yield _card("Late rows", f"By batch.{text}", _legend(keys) + picture, half=half)
    if figures.late_seconds:
        names, counts = _histogram(figures.late_seconds)
        dropped = [Series(kind="dropped_late", name="rows", values=counts)]
        chart = _chart(lambda width: bars("Rows that came too late", names, dropped, width, count_text), _HALF)
        text = "Rows that came too late, by how far they were behind the watermark."
        yield _card("How late", text, chart, half=True)


def _histogram(seconds: Sequence[float]) -> tuple[list[str], list[float | None]]:
    limits = [0, *_LATE_LIMITS]
    names = [f"< {duration_text(limit)}" for limit in _LATE_LIMITS] + [f"\u2265 {duration_text(_LATE_LIMITS[-1])}"]
    counts: list[float | None] = [
        sum(low <= lateness < high for lateness in seconds) for low, high in pairwise([*limits, float("inf")])
    ]
    return names, counts


def _times(figures: Figures) -> Iterator[str]:
    ran = figures.batches
    if not ran:
        return
    series = [
        Series(kind="plan", name="windows and state", values=[batch.plan_seconds for batch in ran]),
        Series(kind="tables", name="record and tables", values=[batch.tables_seconds for batch in ran]),
    ]
    keys = {stage.kind: stage.name for stage in series}
    labels, marks = _numbers(ran), _marks(figures)
    picture = _chart(lambda width: bars("Time of each batch", labels, series, width, duration_text, marks))
    yield _card("Batch times", "How long each batch took, by stage.", _legend(keys) + picture)


def _state(figures: Figures) -> Iterator[str]:
    ran = figures.batches
    labels = _numbers(ran)
    panes = Series(kind="open", name="open", values=[batch.open_panes for batch in ran])
    size = Series(kind="state", name="state", values=[batch.state_bytes for batch in ran])
    has_panes, has_size = (any(value is not None for value in series.values) for series in (panes, size))
    half = has_panes and has_size
    width = _HALF if half else _WIDE
    if has_panes:
        picture = _chart(lambda width: line("Open panes", labels, panes, width, count_text), width)
        yield _card(
            "Open panes",
            "Panes that take rows after a batch; one of several partitions counts once.",
            picture,
            half=half,
        )
    if has_size:
        picture = _chart(lambda width: line("Size of the state", labels, size, width, format_bytes), width)
        yield _card("State", "Size of the state on disk as a batch began.", picture, half=half)


def _errors(figures: Figures) -> Iterator[str]:
    if figures.status.error is not None:
        error = f"<pre>{escape(figures.status.error)}</pre>"
        yield _card("The error by which it failed", "As the job reported it.", error)
    if figures.refusals:
        rows = [
            (
                refusal.reason,
                f"{refusal.rows:,}",
                "" if refusal.at is None else format_time(refusal.at),
                _short(refusal.detail or ""),
            )
            for refusal in figures.refusals
        ]
        table = _table(("reason", "rows", "last at", "last detail"), rows, ("rows",))
        yield _card("Quarantine", "What came too late, was bad, or could not be computed.", table)


def _downtimes(figures: Figures) -> Iterator[str]:
    if not figures.outages:
        return
    rows = [
        (
            format_time(outage.stopped),
            format_time(outage.started),
            duration_text((outage.started - outage.stopped) / _MICRO),
            "ended" if outage.clean else "crashed",
            f"{outage.batch:,}",
            f"{outage.timers_overdue:,}",
            f"{outage.results:,}",
        )
        for outage in reversed(figures.outages)
    ]
    heads = ("stopped", "started", "down for", "the run before", "first batch", "overdue", "results caught up")
    table = _table(heads, rows, ("first batch", "overdue", "results caught up"))
    yield _card("Downtimes", "Starts since the first batch shown.", table)


def _drills(figures: Figures) -> Iterator[str]:
    if figures.drills is None:
        return
    results = figures.drills.results
    passed = sum(result.outcome == "passed" for result in results)
    shown = figures.drills.table
    table = _table(shown.heads, shown.rows, shown.heads[2:])
    text = f"Begun at {figures.drills.at}: {passed} of {len(results)} passed, with the tables of an undisturbed run."
    yield _card("Last drill", text, table)


_CARDS = (_panes, _watermark, _rows, _lateness, _times, _state, _errors, _downtimes, _drills)


def _outcomes(ran: Sequence[Batch], names: Sequence[str]) -> list[Series]:
    return [
        Series(kind=name, name=_OUTCOMES[name], values=[batch.rows.get(name, 0) for batch in ran]) for name in names
    ]


def _marks(figures: Figures) -> dict[int, str]:
    """Return where in the batches a downtime was."""
    places = {batch.number: at for at, batch in enumerate(figures.batches)}
    return {
        places[outage.batch]: f"down for {duration_text((outage.started - outage.stopped) / _MICRO)}"
        for outage in figures.outages
        if outage.batch in places
    }


def _numbers(ran: Sequence[Batch]) -> list[str]:
    return [f"{batch.number:,}" for batch in ran]


def _short(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]}..."
