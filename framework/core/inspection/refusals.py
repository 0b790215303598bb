"""What was refused of a partition, in words: rows that came too late or were malformed, and what can be done then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from panekeeper.framework.core.quarantine import LATE, USER_ERROR
from panekeeper.state.checkpoint.clock import format_time
from panekeeper.state.duration_text import rounded_us_text
from panekeeper.state.records import NO_WATERMARK


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A row, or a firing, of the partition in the quarantine; times in us.

    Attributes:
        reason: as in the quarantine.
        detail: the same.
        at: the event time of the row, or the start of the pane that could not be computed; None if it has none.
        batch: in which it was refused; None if that is not known.
        behind: how far the row was behind the watermark; None if that is not known, or it was not.
        of_firing: whether it is a firing, and no row.
        refused_at: when its batch began; None if that is not known.
    """

    reason: str
    detail: str
    at: int | None = None
    batch: int | None = None
    behind: int | None = None
    of_firing: bool = False
    refused_at: int | None = None


@dataclass(frozen=True)
class LastSettlement:
    """The settlement that has computed the last result of a pane; `at`: when, us, None if that is not known."""

    at: int | None = None

    def has(self, refused: Refusal) -> bool | None:
        """Return whether it has a row that was refused; None if it is not known which of both came first."""
        if self.at is None or refused.refused_at is None:
            return None
        return refused.refused_at < self.at

    def may_have(self, refused: Sequence[Refusal]) -> bool:
        """Return whether it may have one of these: one that can be settled, and was not refused later."""
        return any(refusal.reason in (LATE, USER_ERROR) and self.has(refusal) is not False for refusal in refused)


def watermark_of_rows(watermarks: Mapping[int, int], batch: int, *, follows: bool) -> int:
    """Return the watermark by which rows of a batch are late, us; `NO_WATERMARK` for none, or if it is not known.

    That is the one of their batch where it `follows` the batches before, as Spark's does; else that before the batch.
    """
    if follows:
        return watermarks.get(batch, NO_WATERMARK)
    return max((us for earlier_batch, us in watermarks.items() if earlier_batch < batch), default=NO_WATERMARK)


def missed_between(
    missed: Mapping[int, int], watermarks: Mapping[int, int], closed_at: int, until: int, *, follows: bool
) -> dict[int, int]:
    """Return batch -> its missed panes, of those whose rows came at a watermark from `closed_at` on, before `until`.

    Those are the watermarks at which a pane is closed, and the last of the panes that overlap it is not: a row of it
    that joins others then lacks in it. `follows` as for `watermark_of_rows`; times in us.
    """
    acted = {batch: watermark_of_rows(watermarks, batch, follows=follows) for batch, count in missed.items() if count}
    return {batch: missed[batch] for batch, us in acted.items() if closed_at <= us < until}


def with_lateness(refused: Sequence[Refusal], watermarks: Mapping[int, int], *, follows: bool) -> list[Refusal]:
    """Return rows with how far they were behind the watermark by which they were late (`watermark_of_rows`)."""

    def behind(refusal: Refusal) -> int | None:
        if refusal.at is None or refusal.batch is None or refusal.reason != LATE:
            return None
        watermark = watermark_of_rows(watermarks, refusal.batch, follows=follows)
        return watermark - refusal.at if watermark > refusal.at else None

    return [replace(refusal, behind=behind(refusal)) for refusal in refused]


def refusal_lines(refused: Sequence[Refusal]) -> list[str]:
    """Return a line for all that was refused for the same reason: how many rows, of which times, in which batches."""
    kinds: dict[tuple[str, bool, bool], list[Refusal]] = {}
    for refusal in refused:
        kinds.setdefault((refusal.reason, refusal.of_firing, refusal.at is None), []).append(refusal)
    return [_line(own) for own in kinds.values()]


def _line(own: Sequence[Refusal]) -> str:
    first = own[0]
    when = _batches_text(own)
    detail = first.detail.partition("\n")[0]
    if first.of_firing:
        firings = "a firing of it" if len(own) == 1 else f"{len(own)} firings of it"
        return f"{firings} could not be computed{when}: {first.reason}{f', {detail}' if detail else ''}"
    rows = "a row" if len(own) == 1 else f"{len(own)} rows"
    of = f" of {_range_text(own)}" if first.at is not None else " without an event time"
    is_one, are = len(own) == 1, "is" if len(own) == 1 else "are"
    if first.reason == LATE:
        what = f"{rows}{of} came too late{when} and {are} in the quarantine"
        if is_one and detail:
            return f"{what}: {detail}"
        behind = [refusal.behind for refusal in own if refusal.behind is not None]
        return f"{what}{f': {_span(min(behind), max(behind))} behind the watermark' if behind else ''}"
    said = f", {detail}" if detail and (is_one or all(refusal.detail == first.detail for refusal in own)) else ""
    said = said or (f", such as: {detail}" if detail else "")
    was = "was" if is_one else "were"
    return f"{rows}{of} {was} refused{when} and {are} in the quarantine: {first.reason}{said}"


def _batches_text(own: Sequence[Refusal]) -> str:
    batches = sorted({refusal.batch for refusal in own if refusal.batch is not None})
    if not batches:
        return ""
    return f" in batch {batches[0]}" if len(batches) == 1 else f" in batches {batches[0]} to {batches[-1]}"


def _range_text(own: Sequence[Refusal]) -> str:
    times = sorted(refusal.at for refusal in own if refusal.at is not None)
    first, last = _time(times[0]), _time(times[-1])
    return first if first == last else f"{first} to {last}"


def _span(least: int, greatest: int) -> str:
    first, last = rounded_us_text(least), rounded_us_text(greatest)
    return first if first == last else f"{first} to {last}"


def _time(us: int) -> str:
    try:
        return format_time(us)
    except (ValueError, OverflowError, OSError):
        return f"{us} us"


def remedy_lines(
    refused: Sequence[Refusal], settle: str | None, *, is_closed: bool, settlement: LastSettlement | None = None
) -> list[str]:
    """Return what can be done about rows of a pane that were refused.

    Args:
        refused: those that have a place in the pane.
        settle: the command that settles rows of the window; None: they cannot be.
        is_closed: whether the pane takes no more rows, so that its result can be settled.
        settlement: the one of its last firing; None if that is of none.
    """
    then = "" if is_closed else "once the pane is closed, "
    reasons = {refusal.reason for refusal in refused}
    if reasons.isdisjoint({LATE, USER_ERROR}):
        return ["no result has them; the quarantine has them with all their columns"] if refused else []
    if settle is None:
        return ["they cannot be settled: that is for panes of event time with aggregates of all their rows"]
    of = {reason: [refusal for refusal in refused if refusal.reason == reason] for reason in (LATE, USER_ERROR)}
    return [_remedy_line(own, f"{then}`{settle} --reason {reason}`", settlement) for reason, own in of.items() if own]


def _remedy_line(own: Sequence[Refusal], command: str, settlement: LastSettlement | None) -> str:
    """Return what a command does for what was refused for one reason, or what a settlement has done by now."""
    is_late = own[0].reason == LATE
    if settlement is None or not settlement.may_have(own):
        return f"{command} can add them" if is_late else f"{command} computes them again with a corrected function"
    has_all = all(map(settlement.has, own))
    if not is_late:
        again = "them again" if has_all else "those again that were there then"
        return f"a settlement has computed {again}; {command} does so with a function that was corrected since"
    if has_all:
        return "a settlement has added them"
    return f"a settlement has added those that were there then; {command} adds the others"
