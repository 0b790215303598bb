"""Why did a pane fire, why has it not yet, or why is there nothing of it? Facts in, one answer out.

The facts are what is stored of the pane, the watermark and how it came about, and what the tables have of it. The
answer says no more than they do: a batch that nothing tells is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from panekeeper.framework.core.inspection.recorded import RecordedPort
from panekeeper.framework.core.inspection.refusals import LastSettlement, Refusal, refusal_lines, remedy_lines
from panekeeper.framework.core.quarantine import LATE
from panekeeper.framework.declarations.display import Result
from panekeeper.state.checkpoint.clock import format_time
from panekeeper.state.duration_text import rounded_us_text, us_text
from panekeeper.state.records import NO_WATERMARK

_SETTLED = "SETTLED"
_VALUE, _RESULT = 60, 300
"""Number of characters of a value, and of all values of a firing, that are shown."""


class Verdict(Enum):
    """What has become of a pane of a partition.

    Attributes:
        FIRED: it has fired once, and is open for late rows.
        REFINED: it has fired several times, and is open for late rows.
        WAITING: it has rows that no firing has had, or has not fired as complete.
        CLOSED: it has fired, and takes no more rows.
        SETTLED: it is closed, and a settlement has computed its last result, with rows that had been refused.
        DROPPED: its rows came too late, and are in the quarantine.
        QUARANTINED: its rows, or its firing, could not be computed, and are in the quarantine.
        NOT_YET: no row of it is known, and it takes rows.
        NEVER: no row of it is known, and it takes none any more.
    """

    FIRED = "fired"
    REFINED = "refined"
    WAITING = "waiting"
    CLOSED = "closed"
    SETTLED = "settled"
    DROPPED = "dropped"
    QUARANTINED = "quarantined"
    NOT_YET = "not yet"
    NEVER = "never was"


@dataclass(frozen=True, kw_only=True)
class Firing:
    """A firing in the log.

    Attributes:
        refinement: its number.
        reason: why it fired.
        is_final: whether none follows.
        batch: the one that wrote it, if that is known.
        rows: how many rows it has there.
        values: result column -> value, as JSON has it, of one of them.
        settled_at: when a settlement has written it, us; None if that is not known, or none has.
    """

    refinement: int
    reason: str
    is_final: bool
    batch: int | None = None
    rows: int = 1
    values: Mapping[str, Any] = field(default_factory=dict)
    settled_at: int | None = None


@dataclass(frozen=True, kw_only=True)
class SourceTime:
    """How far event time has come in a port, or a partition of what it reads; all in us.

    Attributes:
        name: of the source, as `port 1`.
        reached: the greatest event time seen, less the delay; None: no row yet.
        delay: the delay of the port; None: it is not recorded.
        silent: how long it has brought no row; None: that is not known.
        idle_after: after how long it is idle; None: never.
    """

    name: str
    reached: int | None
    delay: int | None = None
    silent: int | None = None
    idle_after: int | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the watermark goes on without it."""
        return self.idle_after is not None and self.silent is not None and self.silent >= self.idle_after


@dataclass(frozen=True, kw_only=True)
class Passed:
    """A watermark that has passed what a pane waited for, in a batch: until when that was, and what it was then, us.

    The rows of the batch before have moved it, less the delay, us.
    """

    batch: int
    until: int
    watermark: int
    delay: int


@dataclass(frozen=True, kw_only=True)
class Mover:
    """The row that has moved a watermark past what a pane waited for, as the source still has it.

    Attributes:
        time: its event time, us; None: there is no such row any more.
        file: the file that it is in; None: it is in none, or that is not known.
        values: column -> value, of those that tell it apart.
        unread: why the rows of its batch cannot be read again; None: they were.
    """

    time: int | None = None
    file: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    unread: str | None = None


@dataclass(frozen=True, kw_only=True)
class PaneFacts:
    """What is known of one pane of one partition; times in us.

    Attributes:
        start: its first instant.
        end: the first instant after it.
        ready_at: the watermark at which it fires without further rules.
        closes_at: the watermark that closes it.
        watermark: the one that the job has; its key group may have acted on none since an earlier one.
        held: the row of `open_panes`; None if nothing is stored of it.
        firings: those in the log, in their order.
        refused: what the quarantine has of the partition in this pane.
        unplaced: what it has of the partition without an event time, so of no pane.
        settle: the command that settles rows of the window; None: they cannot be.
        missed: batch -> how often a row of the job came too late for one of its panes, and joined later ones, of the
            batches in which this may have been the pane.
        watermarks: batch -> its watermark, `NO_WATERMARK` for none yet, of the batches that the metrics tell.
        sources: how far event time has come.
        follows: whether a batch acts on the event time that the batches before it have read, as Spark's watermark does.
        ahead: the watermark of the next batch, where that is known already.
        is_flushed: a flush has closed all panes.
        nearest: what there is instead, in words.
        mover: the row that has moved the watermark past it; None if it was not looked for.
    """

    start: int
    end: int
    ready_at: int
    closes_at: int
    watermark: int = NO_WATERMARK
    held: Mapping[str, Any] | None = None
    firings: Sequence[Firing] = ()
    refused: Sequence[Refusal] = ()
    unplaced: Sequence[Refusal] = ()
    settle: str | None = None
    missed: Mapping[int, int] = field(default_factory=dict)
    watermarks: Mapping[int, int] = field(default_factory=dict)
    sources: Sequence[SourceTime] = ()
    follows: bool = False
    ahead: int | None = None
    is_flushed: bool = False
    nearest: Sequence[str] = ()
    mover: Mover | None = None

    @property
    def settlement(self) -> LastSettlement | None:
        """The settlement that has made the last firing; None: none has."""
        last = self.firings[-1] if self.firings else None
        return LastSettlement(last.settled_at) if last is not None and last.reason == _SETTLED else None


@dataclass(frozen=True, kw_only=True)
class Answer(Result):
    """A verdict, the batch that brought it about if that is known, and the reasons, a sentence each."""

    verdict: Verdict
    batch: int | None = None
    reasons: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return it as JSON-able fields."""
        return {"verdict": self.verdict.value, "batch": self.batch, "reasons": [*self.reasons]}

    def _described(self) -> Iterator[str]:
        yield self.verdict.value
        yield from (f"  {reason}" for reason in self.reasons)


def why_pane(facts: PaneFacts) -> Answer:
    """Return what has become of a pane, and why; and what was refused of it, whatever has become of it."""
    answer = _why(facts)
    return replace(answer, reasons=(*answer.reasons, *_refused_lines(facts)))


def _refused_lines(facts: PaneFacts) -> list[str]:
    is_closed = facts.held is None and (facts.is_flushed or facts.watermark >= facts.closes_at)
    return [
        *refusal_lines(facts.refused),
        *remedy_lines(facts.refused, facts.settle, is_closed=is_closed, settlement=facts.settlement),
        *unplaced_lines(facts.unplaced),
        *_missed_lines(facts.missed),
    ]


def _missed_lines(missed: Mapping[int, int]) -> list[str]:
    """Return how often rows came too late for this pane, or one that overlaps it: which it was is not recorded."""
    count, batches = sum(missed.values()), sorted(missed)
    if not count:
        return []
    times = "once" if count == 1 else f"{count} times"
    in_batches = f"batch {batches[0]}" if len(batches) == 1 else f"batches {batches[0]} to {batches[-1]}"
    what = "a row of some partition joined its later panes alone, as this one, or one that overlaps it, was closed"
    return [f"{times} in {in_batches} {what}; the quarantine has no such row"]


def unplaced_lines(unplaced: Sequence[Refusal]) -> list[str]:
    """Return a line for each reason for which rows of a partition were refused that are of no pane."""
    return [f"of this partition, and no pane, {line}" for line in refusal_lines(unplaced)]


def passed_by(facts: PaneFacts) -> Passed | None:
    """Return how the watermark came to fire a pane as complete; None: it has not, or that is not known.

    It is known where Spark keeps the watermark, as the delay there is one.
    """
    fired = [firing.batch for firing in facts.firings if firing.reason == "WATERMARK"]
    batch = fired[0] if fired else None
    if batch is None and (fired or (facts.held is not None and facts.held["firings"])):
        batch = _batch_at(facts, facts.ready_at)
    delay = facts.sources[0].delay if facts.follows and len(facts.sources) == 1 else None
    if batch is None or delay is None or batch not in facts.watermarks:
        return None
    return Passed(batch=batch, until=facts.ready_at, watermark=facts.watermarks[batch], delay=delay)


def _why(facts: PaneFacts) -> Answer:
    if facts.held is not None:
        return _of_open(facts, facts.held)
    if facts.firings:
        last = facts.firings[-1]
        closed = f"it closed at the watermark {time_text(facts.closes_at)}, and its rows are removed"
        by_flush = "a flush has closed it, with all other panes"
        reasons = [*_firing_lines(facts), by_flush if facts.is_flushed else closed]
        verdict = Verdict.CLOSED if facts.settlement is None else Verdict.SETTLED
        return Answer(verdict=verdict, batch=last.batch, reasons=tuple(reasons))
    if facts.refused:
        others = [refusal for refusal in facts.refused if refusal.reason != LATE]
        verdict = Verdict.QUARANTINED if others else Verdict.DROPPED
        return Answer(verdict=verdict, batch=(others or facts.refused)[0].batch, reasons=(_taking_line(facts),))
    verdict = Verdict.NEVER if facts.is_flushed or facts.watermark >= facts.closes_at else Verdict.NOT_YET
    return Answer(verdict=verdict, reasons=(*_never_lines(facts), *facts.nearest))


def _taking_line(facts: PaneFacts) -> str:
    """Return whether a pane that has nothing takes rows, and until when."""
    if facts.is_flushed:
        return "the job was flushed, and takes no more rows"
    now, closes = time_text(facts.watermark), time_text(facts.closes_at)
    if facts.watermark >= facts.closes_at:
        return f"it closed at the watermark {closes}, which is now {now}, and takes no more rows"
    return f"it takes rows until the watermark, now {now}, reaches {closes}"


def _of_open(facts: PaneFacts, held: Mapping[str, Any]) -> Answer:
    fired = int(held["firings"])
    rows = "" if held["rows"] is None else f", with {held['rows']} row{'s' if held['rows'] != 1 else ''}"
    if held["unfired"]:
        reasons = [*_firing_lines(facts), *_waiting_lines(facts, held, rows)]
        return Answer(verdict=Verdict.WAITING, reasons=tuple(reasons))
    until = f"until the watermark, now {time_text(facts.watermark)}, reaches {time_text(facts.closes_at)}"
    reasons = [*_firing_lines(facts), f"it takes late rows {until}"]
    batch = facts.firings[-1].batch if facts.firings else None
    if batch is None and fired == 1:
        batch = _batch_at(facts, facts.ready_at)
    return Answer(verdict=Verdict.REFINED if fired > 1 else Verdict.FIRED, batch=batch, reasons=tuple(reasons))


def _firing_lines(facts: PaneFacts) -> list[str]:
    """Return a line for each firing, with the arithmetic of the watermark for the one on completion."""
    lines = []
    by_state = facts.held is not None and not facts.firings and facts.held["firings"]
    firings = facts.firings or ([Firing(refinement=0, reason="WATERMARK", is_final=False)] if by_state else [])
    first = next((firing for firing in firings if firing.reason == "WATERMARK"), firings[0] if firings else None)
    for firing in firings:
        batch, result = firing.batch, _result_text(firing)
        if firing.reason == "WATERMARK":
            batch = _batch_at(facts, facts.ready_at) if batch is None else batch
            lines.append(f"it fired{_in(batch)}{result}: {_passed(facts, batch)}")
        else:
            lines.append(f"it fired{_in(batch)}{result}: {_REASONS.get(firing.reason, firing.reason)}")
        if facts.mover is not None and firing is first and (passed := passed_by(facts)) is not None:
            lines.append(_mover_line(facts.mover, passed))
    return lines


def _result_text(firing: Firing) -> str:
    """Return what the log has of a firing: its values, or how many rows; what is long is cut off."""
    if firing.rows != 1:
        return f" with {firing.rows} result rows"
    shown = (f"{name}={_cut('-' if value is None else str(value), _VALUE)}" for name, value in firing.values.items())
    return f" with {_cut(', '.join(shown), _RESULT)}" if firing.values else ""


def _cut(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]}..."


def _mover_line(mover: Mover, passed: Passed) -> str:
    if mover.unread is not None:
        return f"which row has moved the watermark cannot be read again: {mover.unread}"
    if mover.time is None:
        return f"batch {passed.batch - 1} has no row with an event time any more, which has moved the watermark"
    shown = " ".join(f"{name}={value}" for name, value in mover.values.items())
    file = "" if mover.file is None else f" in {mover.file}"
    return (
        f"the row of batch {passed.batch - 1} that has moved it: event time {format_time(mover.time)}{file} ({shown}); "
        f"less the delay of {us_text(passed.delay)} that is {format_time(mover.time - passed.delay)}, and the pane "
        f"waited for {format_time(passed.until)}"
    )


_REASONS = {
    "LATE": "late rows had come, and the watermark advanced (LATE)",
    "EARLY": "a rule for early firings (EARLY)",
    "FLUSH": "the job was flushed (FLUSH)",
    _SETTLED: "rows that had come too late were settled (SETTLED)",
}


def _passed(facts: PaneFacts, batch: int | None) -> str:
    """Return how the watermark came to pass what the pane waited for."""
    until = time_text(facts.ready_at)
    if batch is None or batch not in facts.watermarks:
        return f"the watermark reached {until}"
    now = facts.watermarks[batch]
    before = max((us for earlier_batch, us in facts.watermarks.items() if earlier_batch < batch), default=None)
    came = "" if before in (None, NO_WATERMARK) else f" from {time_text(before)}"
    text = f"the watermark went{came} to {time_text(now)}, and so reached {until}"
    delays = {source.delay for source in facts.sources}
    if len(facts.sources) == 1 and (delay := delays.pop()) is not None:
        whose = "the batches before it" if facts.follows else "it"
        text += (
            f"; it is the greatest event time that {whose} had read, {time_text(now + delay)}, less the delay of "
            f"{rounded_us_text(delay)}"
        )
    return text


def _waiting_lines(facts: PaneFacts, held: Mapping[str, Any], rows: str) -> list[str]:
    lines = []
    at, now = held["fires_at"], facts.watermark
    if at is not None and facts.end <= now and at == now + 1:
        lines.append(f"it waits for any watermark greater than {time_text(now)}: rows have come after its end{rows}")
    elif at is not None:
        lines.append(f"it waits for a watermark of {time_text(at)}{rows}; the watermark is {time_text(now)}")
    else:
        lines.append(f"no watermark makes it fire before it closes at {time_text(facts.closes_at)}{rows}")
    if held["next_rows"] is not None:
        lines.append(f"or it fires after {held['next_rows']} more rows")
    if held["next_clock"] is not None:
        lines.append(f"or it fires by the wall clock at {time_text(held['next_clock'])}")
    if at is not None and facts.ahead is not None and facts.ahead >= at:
        lines.append(f"the next batch has the watermark {time_text(facts.ahead)}, and fires it")
    return [*lines, *source_lines(facts.sources)]


def source_lines(sources: Sequence[SourceTime]) -> list[str]:
    """Return a line for each source that the watermark is taken from, the one that holds it back first."""
    lines = []
    for source in sorted(sources, key=lambda source: (source.reached is not None, source.reached)):
        if source.reached is None:
            lines.append(f"{source.name} has had no row yet{_silence(source)}")
            continue
        seen = (
            "" if source.delay is None else f" at {time_text(source.reached + source.delay)} less {_text(source.delay)}"
        )
        lines.append(f"{source.name} stands{seen or ' where it is'}: {time_text(source.reached)}{_silence(source)}")
    return lines


def _silence(source: SourceTime) -> str:
    if source.silent is None:
        return ""
    idle = "" if source.idle_after is None else f" (idle at {_text(source.idle_after)})"
    counts = "; it is idle, so the watermark goes on without it" if source.is_idle else ""
    return f", and has had no row for {_text(source.silent)}{idle}{counts}"


def _never_lines(facts: PaneFacts) -> list[str]:
    if facts.is_flushed or facts.watermark >= facts.closes_at:
        return [_taking_line(facts), "neither the log nor the quarantine has anything of it"]
    lines = [f"no row of it has come; {_taking_line(facts)}"]
    seen = [
        source.reached + source.delay
        for source in facts.sources
        if source.reached is not None and source.delay is not None
    ]
    if seen and facts.start > max(seen):
        lines.append(f"it begins after the newest event time that has come, {time_text(max(seen))}")
    return lines


def _batch_at(facts: PaneFacts, us: int) -> int | None:
    """Return the batch whose watermark was the first to reach an instant; None if the metrics do not tell."""
    reached = [batch for batch, watermark in sorted(facts.watermarks.items()) if watermark >= us]
    return reached[0] if reached and (reached[0] == 0 or reached[0] != min(facts.watermarks)) else None


def _in(batch: int | None) -> str:
    return "" if batch is None else f" in batch {batch}"


def time_text(us: int | None) -> str:
    """Return a time as ISO 8601 writes it; one that no calendar has, as microseconds."""
    if us is None or us == NO_WATERMARK:
        return "none yet"
    try:
        return format_time(us)
    except (ValueError, OverflowError, OSError):
        return f"{us} us"


def _text(us: int) -> str:
    return rounded_us_text(us)


def why_partition(port: RecordedPort, held: Mapping[str, Any] | None, refused: Sequence[Refusal] = ()) -> Answer:
    """Return when a partition of a window in arrival order fires; `held` is its row of `live_partitions`.

    `refused` is what the quarantine has of the partition.
    """
    if held is None:
        return nothing_kept(refused)
    rows, lacking = held["rows"] + held["waiting"], held["next_rows"]
    lines = [f"it has {rows} row{'s' if rows != 1 else ''}, {held['since_fired']} of them since it fired"]
    if port.kind == "tumbling":
        lines = [f"it has {rows} row{'s' if rows != 1 else ''}"]
    if lacking is not None:
        lines.append(f"it fires after {lacking} more row{'s' if lacking != 1 else ''}")
    if held["next_clock"] is not None:
        lines.append(f"{'or ' if lacking is not None else ''}it is due by the clock at {time_text(held['next_clock'])}")
    if lacking is None and held["next_clock"] is None:
        lines.append(f"neither a number of rows nor the clock makes it fire, but what its rows say: {_policy(port)}")
    if held["evicted_at"] is not None:
        lines.append(f"the partition leaves at {time_text(held['evicted_at'])} if no row comes")
    return Answer(verdict=Verdict.WAITING, reasons=(*lines, *refusal_lines(refused)))


def nothing_kept(refused: Sequence[Refusal]) -> Answer:
    """Return the answer for a partition of which no row is kept; `refused` is what the quarantine has of it."""
    reasons = ("no row of this partition is kept", *refusal_lines(refused))
    if not refused:
        return Answer(verdict=Verdict.NEVER, reasons=reasons)
    is_late = all(refusal.reason == LATE for refusal in refused)
    verdict = Verdict.DROPPED if is_late else Verdict.QUARANTINED
    return Answer(verdict=verdict, batch=refused[0].batch, reasons=reasons)


def _policy(port: RecordedPort) -> str:
    role = "evict" if port.kind == "tumbling" else "trigger"
    return ", ".join(f"{n.removeprefix(f'{role}.')}={v}" for n, v in port.fields.items() if n.startswith(f"{role}."))
