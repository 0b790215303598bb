"""Which window does a stream take, and what has a stream with its window?"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from panekeeper.framework.core.arrival.policies.evaluate import tumbles_at_marks
from panekeeper.framework.core.arrival.policies.registry import require_implementations
from panekeeper.framework.core.job_spec import TIMESTAMP
from panekeeper.framework.core.sessions.gaps import require_gap_type
from panekeeper.framework.declarations.calendar import Calendar
from panekeeper.framework.declarations.durations import to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.joins import Within
from panekeeper.framework.declarations.policies import Policy, column_read_by
from panekeeper.framework.declarations.windows import (
    ArrivalWindow,
    EventTimeWindow,
    Session,
    Window,
    columns_of_policies,
    panes_meant,
)
from panekeeper.framework.engine.flow.intake import Intake
from panekeeper.state.duration_text import us_text
from panekeeper.state.table_roles import KINDS


@dataclass(frozen=True)
class Input:
    """A checked stream with its window."""

    intake: Intake
    window: Window

    @property
    def shown(self) -> Mapping[str, str]:
        """What is shown of it."""
        return {"window": repr(self.window), **shown_stream(self.intake)}


def shown_stream(intake: Intake) -> Mapping[str, str]:
    """Return what is shown of a stream, without what it does not have."""
    watermark = us_text(intake.watermark_us) if intake.event_time else None
    shown = {
        "partition_by": ", ".join(intake.partition_by),
        "event_time": intake.event_time,
        "watermark": watermark,
        "arrival_time": intake.arrival_time,
        "columns": ", ".join(intake.user_columns),
    }
    return {name: value for name, value in shown.items() if value}


def _require_one_window(window: Any, further: Sequence[Any]) -> None:
    """Raise `DeclarationError` for what is no window, or more: Spark's `window` takes durations."""
    given = ", ".join(map(repr, (window, *further)))
    if further and isinstance(window, Window):
        raise DeclarationError(
            f"window() takes one window, not {given}; what belongs to it is an option of it, such as "
            'TimeInterval("10 minutes", creation_period="5 minutes")'
        )
    if further or not isinstance(window, Window):
        meant = _panes_of_durations(window, *further) or "TimeInterval(hours(1))"
        raise DeclarationError(f"window() takes a window such as {meant}, not {given}")


def _panes_of_durations(length: Any, *slide_and_start: Any) -> str:
    """Return the window that Spark calls by these durations; empty if they are none.

    >>> _panes_of_durations("1 hour", "5 minutes")
    "TimeInterval('1 hour', creation_period='5 minutes')"
    """
    options = ("creation_period", "interval_offset")
    if len(slide_and_start) > len(options):
        return ""
    try:
        for duration in (length, *slide_and_start):
            to_us(duration, "the duration")
    except DeclarationError:
        return ""
    named = (f"{name}={value!r}" for name, value in zip(options, slide_and_start, strict=False))
    arguments = ", ".join([repr(length), *named])
    return f"TimeInterval({arguments})"


def fitting_window(intake: Intake, window: Any, *further: Any) -> Window:
    """Return the window with its columns as the stream has them; `further` is what was given beside it.

    Raises:
        DeclarationError: it is none, or not the only one, or does not fit the stream.
    """
    _require_one_window(window, further)
    if isinstance(window, EventTimeWindow):
        if intake.event_time is None:
            kind = type(window).__name__
            raise DeclarationError(f"a {kind} is a range of event time: give windowed() an event_time column")
        if getattr(window, "fires_by_clock", False) and intake.arrival_time is not None:
            raise DeclarationError(
                f"the window fires by the wall clock, and arrival_time={intake.arrival_time!r} is another "
                "clock; leave out arrival_time, or let it fire by Every(rows=...) or Every(event_time=...)"
            )
        if isinstance(window, Calendar) and intake.pane_time != TIMESTAMP and window.zone != "UTC":
            raise DeclarationError(
                f"zone is {window.zone!r}, but the event time {intake.event_time!r} is a timestamp_ntz, "
                "which is in no zone; give zone='UTC' for the calendar that it is in, or cast it to timestamp"
            )
        return _with_found_gap(window, intake) if isinstance(window, Session) else window
    options = {"idle_after": intake.idle, "watermark_by": intake.watermark_by}
    for option, given in (options | {"dedupe": intake.dedupe}).items():
        if given is not None:
            raise DeclarationError(
                f"{option} is for a TimeInterval or a Session: a {type(window).__name__} window is in arrival "
                "order, and has no watermark; leave it out"
            )
    return _with_found_columns(window, intake)


def cautions_of(fitting: Iterable[tuple[Intake, Window | Within]]) -> Iterator[str]:
    """Yield what runs without an error and is seldom meant, of streams, each with its window or join."""
    for intake, window in fitting:
        if isinstance(window, ArrivalWindow):
            yield from _arrival_cautions(intake, window)
        elif not (intake.has_declared_delay or window.age_us):
            yield (
                f"{intake.name!r} has event_time={intake.event_time!r} and no watermark=: the delay is 0 seconds, so a "
                'row that comes after newer ones may be too late, and is quarantined then. Write watermark="10 '
                'minutes" to wait so long for such rows, or watermark="0 seconds" if rows come in order'
            )


def _arrival_cautions(intake: Intake, window: ArrivalWindow) -> Iterator[str]:
    """Yield what to say of a window that counts time by arrival, on a stream with an event time."""
    if intake.event_time is not None and intake.arrival_time is None and (meant := panes_meant(window)):
        yield (
            f"a {type(window).__name__} window of time counts by arrival, the wall clock, and event_time="
            f"{intake.event_time!r} and the watermark have no part in it. For windows of event time use "
            f"{meant}; else leave out event_time"
        )


def input_of(intake: Intake, window: Window) -> Input:
    """Return a stream with a fitting window; what that needs of the stream is in the stream.

    Raises:
        DeclarationError: its partitions, marks, order or columns are not such as the window needs.
    """
    return Input(_in_arrival_order(intake, window) if isinstance(window, ArrivalWindow) else intake, window)


def _in_arrival_order(intake: Intake, window: ArrivalWindow) -> Intake:
    limit = window.partition_eviction
    if limit is not None and not intake.partition_by:
        raise DeclarationError(f"partition_eviction is {limit!r}, but the window has no partitions: use partition_by")
    marked = bool(intake.punctuation or intake.marks or intake.has_mark_column)
    require_implementations(window)
    if tumbles_at_marks(window) and not marked:
        raise DeclarationError(
            "Tumbling(Punctuation()) needs marks: give windowed() punctuation='a SQL condition' or 'end_of_file', "
            "or marks='a SQL condition'"
        )
    read = columns_of_policies(window)
    for policy, column in read:
        intake.require_fits(policy, column)
    groups = 1 if needs_single_group(window) else intake.key_groups
    if intake.arrival_time and intake.order_by and intake.order_by[0] != intake.arrival_time and groups != 1:
        raise DeclarationError(
            f"order_by is {list(intake.order_by)}, but arrival_time={intake.arrival_time!r} is the clock: in "
            "another order the arrival of a row would depend on which keys share a key group. Let order_by begin "
            f"with {intake.arrival_time!r}, or use key_groups=1"
        )
    return replace(intake, numeric_columns=tuple(dict.fromkeys(column for _, column in read)), key_groups=groups)


def _with_found_columns(window: ArrivalWindow, intake: Intake) -> ArrivalWindow:
    """Return the window with the columns of its policies as the stream has them."""
    for role in ("evict", "trigger"):
        policy: Any = getattr(window, role, None)
        column = None if policy is None else column_read_by(policy)
        if column is not None and (column_of_stream := intake.find(f"the attribute of {policy!r}", column)) != column:
            window = replace(window, **{role: replace(policy, attribute=column_of_stream)})
    return window


def _with_found_gap(window: Session, intake: Intake) -> Session:
    """Return the window with the column of its gap, if it has one, as the stream has it."""
    if not window.has_column_gap:
        return window
    column = intake.find("gap", window.gap)
    require_gap_type(column, intake.arrow_schema([column]).field(0).type)
    return replace(window, gap=column)


def needs_single_group(window: Window) -> bool:
    """Whether partitions share a limit, so that one key group must have all (docs/semantics.md section 10.1)."""
    limit: Policy | None = getattr(window, "partition_eviction", None)
    return limit is not None and limit.spans_partitions


_WINDOW_NAME = re.compile(r"[a-z]\w*", re.ASCII | re.IGNORECASE)


def require_window_name(name: str, others: Collection[str]) -> None:
    """Refuse a name that, at the end of a table's, is no name of its own."""
    if not _WINDOW_NAME.fullmatch(name):
        raise DeclarationError(
            f"the window {name!r} names tables; use letters, digits and '_', beginning with a letter"
        )
    if name.lower() in KINDS:
        raise DeclarationError(f"the window {name!r} has the name of another table of the job; choose another one")
    if name.lower() in {other.lower() for other in others}:
        raise DeclarationError(
            f"the window {name!r} differs from another one only in upper and lower case, and names tables; rename it"
        )


@contextmanager
def naming(window: str) -> Iterator[None]:
    """Say in an error of this block of which window it is."""
    try:
        yield
    except DeclarationError as error:
        raise DeclarationError(f"window {window}: {error}") from None
