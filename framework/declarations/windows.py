"""Declarations of windows, validated where they are written (docs/semantics.md section 9).

Nothing here runs; `panekeeper.framework.core` has the running windows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

from panekeeper.framework.declarations.calls import WindowOptions, with_named_options
from panekeeper.framework.declarations.display import call_text
from panekeeper.framework.declarations.durations import Duration, to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.firing import (
    Emit,
    FiringOptions,
    PaneFiringOptions,
    require_emit,
    require_one_of,
)
from panekeeper.framework.declarations.policies import (
    AllOf,
    AnyOf,
    Count,
    Policy,
    Role,
    Time,
    column_read_by,
    require_age,
    require_count,
    require_positive,
    require_role,
)
from panekeeper.state.duration_text import us_text

LatenessRule = Literal["pane", "tuple"]
"""When a late row is dropped: once every pane it belongs to is closed, or once it is older than the discard age."""


@with_named_options
@dataclass(frozen=True)
class TimeInterval(PaneFiringOptions, WindowOptions):
    """Panes of equal length in event time: `[k * period + offset, k * period + offset + duration)`.

    A pane completes, and fires, when the watermark reaches its end. Rows that come later still join it and make
    it fire again at the next advancing watermark, until the watermark reaches its end plus `discard_age`: then
    it is closed and its rows are removed (docs/semantics.md section 6).

    All durations: text such as `"10 minutes"`, a `timedelta`, `hours(1)`, or seconds as a number.

    Args:
        interval_duration: length of a pane, > 0.
        creation_period: distance between the starts of adjacent panes, > 0; the duration if not given (panes
            that touch). Shorter makes panes overlap; longer leaves gaps, and a row in a gap joins no pane.
        discard_age: how long a complete pane still takes late rows, >= 0.
        interval_offset: a point in time that coincides with the start of a pane, in `[0, interval_duration)`.
        late: `"pane"` drops a late row only if every pane it belongs to is closed; `"tuple"` drops it once it is
            older than the watermark by more than `discard_age` (docs/semantics.md section 6.4).
        emit: which firings a pane has: `"on_complete"`, at its end and again after late rows; `"on_close"`, one when it
            closes; `"on_update"`, also one after each micro-batch that changed it, so these depend on the batches.
        early: how often a pane fires for a partition before it is complete, while it has new rows: by the wall clock,
            `Every("10 seconds")`; exactly at each 100th row, `Every(rows=100)`; or by the watermark,
            `Every(event_time="1 minute")`.
        refire: how often a complete pane fires for late rows of a partition: `Every(rows=2)` or `Every("1 minute")`;
            what has not fired then fires when the pane closes. At each advancing watermark if not given.
        results: what a firing of aggregates shows: `"accumulating"`, all rows of the pane; `"discarding"`, those since
            it last fired; `"retracting"`, all rows, after a row with `op` = -1 that takes back the result before.
        fires_when: a condition over the result columns, `"sum >= 9"`, as `agg.expr` takes it, tried after each row of a
            partition: if it holds, the pane fires.
        then: `"begin_anew"`: a pane is empty after it has fired.
        fill: what a pane in which a partition has no rows shows, once it has had rows: `"null"`, nulls; `"zero"`, 0 for
            numbers; `"last"`, the results of its last pane with rows. Without it such a pane has no result.
        fill_for: with `fill`: only panes are filled that end at most so long after that last pane with rows.

    Raises:
        DeclarationError: a duration out of its range, or an option that it does not have, such as a partition eviction;
            the message names the value and the rule.

    >>> window = TimeInterval("1 hour", creation_period="20 minutes", discard_age="6 hours")
    """

    refused: ClassVar[Mapping[str, str]] = {
        "partition_eviction": "a time interval has none, because its panes close when the watermark passes their end "
        "and discard_age: set discard_age instead",
    }
    interval_duration: Duration
    _: KW_ONLY
    creation_period: Duration | None = None
    discard_age: Duration = 0
    interval_offset: Duration = 0
    late: LatenessRule = "pane"

    def __post_init__(self) -> None:
        require_positive(self.interval_duration, "interval_duration")
        if self.creation_period is not None:
            require_positive(self.creation_period, "creation_period")
        require_age(self.discard_age)
        if not 0 <= self.offset_us < self.duration_us:
            same = self.offset_us % self.repeats_after_us
            advice = (
                f'; interval_offset="{us_text(same)}" has panes at the same times' if same < self.duration_us else ""
            )
            raise DeclarationError(
                f"interval_offset is {self.interval_offset!r}; it must be in [0, {us_text(self.duration_us)}){advice}"
            )
        require_one_of(("pane", "tuple"), self.late, "late")
        self.require_possible_firing(takes_late_rows=self.age_us > 0)
        if self.fill is not None:
            self._require_fillable()

    def _require_fillable(self) -> None:
        if self.period_us < self.duration_us and not isinstance(self, Cumulate):
            raise DeclarationError(
                f"fill is {self.fill!r}, but by creation_period={self.creation_period!r} panes overlap; leave out one "
                "of them"
            )
        if self.fill_for_us < self.period_us:
            raise DeclarationError(
                f"fill_for is {self.fill_for!r}, less than one pane after another, so none would be filled; give at "
                f"least {us_text(self.period_us)}"
            )

    @property
    def duration_us(self) -> int:
        """Length of a pane, in microseconds."""
        return to_us(self.interval_duration, "interval_duration")

    @property
    def period_us(self) -> int:
        """Distance between the starts of adjacent panes, in microseconds."""
        if self.creation_period is None:
            return self.duration_us
        return to_us(self.creation_period, "creation_period")

    @property
    def repeats_after_us(self) -> int:
        """After how much event time panes begin and end as before: offsets that far apart are one, in microseconds."""
        return self.period_us

    @property
    def age_us(self) -> int:
        """How long a complete pane takes late rows, in microseconds of event time."""
        return to_us(self.discard_age, "discard_age")

    @property
    def reach_us(self) -> int:
        """How far behind the watermark a row may be that is not late, in microseconds."""
        return self.age_us + (0 if self.late == "tuple" else self.duration_us)

    @property
    def offset_us(self) -> int:
        """A start of a pane, in microseconds after the epoch."""
        return to_us(self.interval_offset, "interval_offset")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {
            "kind": "timeInterval",
            "interval_duration_us": self.duration_us,
            "creation_period_us": self.period_us,
            "discard_age_us": self.age_us,
            "interval_offset_us": self.offset_us,
            "late": self.late,
            **self.firing_declaration(),
        }


@with_named_options
class Cumulate(TimeInterval):
    """Panes in event time that begin together and end step after step: of each `size`, one after 1, 2, ... steps.

    `Cumulate("1 hour", "1 day")` has the results of the day so far at each full hour. All else is as for
    `TimeInterval`; a row is kept once, however many panes it is in (docs/semantics.md section 6.9).

    Args:
        step: the difference between the ends of two neighbouring panes, > 0.
        size: the length of the last pane, after which the next ones begin; a whole number of steps.
        options: as for `TimeInterval`, but for `creation_period`; `interval_offset` is a point in time at which panes
            begin.

    Raises:
        DeclarationError: a duration out of its range, a size that is no whole number of steps, or options that
            contradict each other.

    >>> window = Cumulate("1 hour", "1 day")
    """

    refused: ClassVar[Mapping[str, str]] = {
        **TimeInterval.refused,
        "creation_period": "panes of Cumulate begin each size, leave it out",
        "interval_duration": "panes of Cumulate are as long as their steps, say it with size",
    }

    def __init__(self, step: Duration, size: Duration, **options: Any) -> None:
        step_us, size_us = to_us(step, "step"), to_us(size, "size")
        require_positive(step, "step")
        if size_us <= 0 or size_us % step_us:
            raise DeclarationError(f"size is {size!r}; it must be a whole number of steps of {us_text(step_us)}")
        super().__init__(size, creation_period=step, **options)

    def __repr__(self) -> str:
        return call_text(
            self, self.creation_period, self.interval_duration, without=("creation_period", "interval_duration")
        )

    @property
    def repeats_after_us(self) -> int:
        """After how much event time panes begin and end as before: a size, not a step."""
        return self.duration_us

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {**super().declaration(), "cumulates": True}


@with_named_options
@dataclass(frozen=True)
class Session(FiringOptions, WindowOptions):
    """Sessions in event time: rows of one partition that are at most `gap` apart (docs/semantics.md section 15).

    A session is `[first row, last row + gap)`. It completes, and fires, when the watermark reaches its end. A row that
    comes later still joins it, until the watermark reaches its end plus `discard_age`: then it is closed and removed.
    A row that joins two sessions makes one of them; if they had fired, the firing of the one that they became says so
    in its column `replaces`.

    Durations: text such as `"10 minutes"`, a `timedelta`, `hours(1)`, or seconds as a number.

    Args:
        gap: a duration > 0; or the name of a column, a gap for each row: a day-time interval, or a number of seconds.
            A row whose gap is null, or not positive, joins no session.
        max_duration: a session is cut at its first row plus so much: the next row begins another one. At least the
            gap; None: it goes on while rows come.
        discard_age: how long a complete session still takes late rows, >= 0.
        emit: which firings a session has, as for `TimeInterval`.
        early: how often it fires before it is complete, as for `TimeInterval`; the rows of a session count.
        refire: how often a complete session fires for late rows, as for `TimeInterval`. One that a late row has
            prolonged beyond the watermark is not complete.
        results: what a firing of aggregates shows, as for `TimeInterval`: `"retracting"` takes back each result that
            `replaces` names, too. `"discarding"` keeps partial results, so it goes with neither `max_duration` nor a
            gap for each row.

    Raises:
        DeclarationError: a duration out of its range, or an option that sessions do not have.

    >>> window = Session("30 minutes", discard_age="1 hour")
    """

    refused: ClassVar[Mapping[str, str]] = {
        "fill": "a session has at least one row, so leave it out",
        "late": "a session takes any row that touches it while it is open, so leave it out",
        "partition_eviction": "sessions have none, because they close when the watermark passes their end and "
        "discard_age: set discard_age instead",
    }
    what_fires: ClassVar[str] = "a session"
    gap: Any
    _: KW_ONLY
    max_duration: Duration | None = None
    discard_age: Duration = 0

    def __post_init__(self) -> None:
        if not self.has_column_gap:
            require_positive(self.gap, "gap")
        require_age(self.discard_age)
        if self.max_duration is not None:
            require_positive(self.max_duration, "max_duration")
        most = self.max_duration_us
        if most is not None and self.gap_us is not None and most < self.gap_us:
            raise DeclarationError(
                f"max_duration is {self.max_duration!r}, less than the gap {self.gap!r}; give at least the gap"
            )
        self.require_possible_firing(takes_late_rows=self.age_us > 0)
        if self.forgets and self.needs_rows:
            by = f"gap={self.gap!r}" if self.has_column_gap else f"max_duration={self.max_duration!r}"
            raise DeclarationError(
                f"results is {self.results!r}, for which partial results are kept, but by {by} a session keeps its "
                "rows; leave out one of them"
            )

    @property
    def gap_us(self) -> int | None:
        """The gap, in microseconds; None if each row has its own."""
        return None if self.has_column_gap else to_us(self.gap, "gap")

    @property
    def has_column_gap(self) -> bool:
        """Whether the gap is a column: a text that does not begin as a duration does, or a column of Spark's."""
        if isinstance(self.gap, str):
            return not re.match(r"\s*([-+.\d]|interval\b)", self.gap, re.IGNORECASE)
        return hasattr(self.gap, "isNotNull")

    @property
    def gap_column(self) -> str:
        """The name of the column with the gap of each row."""
        return str(self.gap)

    @property
    def max_duration_us(self) -> int | None:
        """How long a session is at most, in microseconds; None: no limit."""
        return None if self.max_duration is None else to_us(self.max_duration, "max_duration")

    @property
    def age_us(self) -> int:
        """How long a complete session takes late rows, in microseconds of event time."""
        return to_us(self.discard_age, "discard_age")

    @property
    def reach_us(self) -> int:
        """How far behind the watermark a row may be that is not late by itself, whatever its own gap, in us."""
        return self.age_us + (self.gap_us or 0)

    @property
    def needs_rows(self) -> bool:
        """Whether sessions keep their rows, whatever is computed: which rows are together may turn out later."""
        return self.has_column_gap or self.max_duration is not None

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        gap = {"gap": self.gap_column} if self.has_column_gap else {"gap_us": self.gap_us}
        return {
            "kind": "session",
            **gap,
            "max_duration_us": self.max_duration_us,
            "discard_age_us": self.age_us,
            **self.firing_declaration(),
        }


@with_named_options
@dataclass(frozen=True)
class SlidingByRow(WindowOptions):
    """Windows of one length in event time that rows place: they end at, or begin after, each row of a partition.

    For each row at t there is the window `[t - difference, t]`, and, if rows lie in it, the one that begins right after
    the row, `[t + 1 us, t + 1 us + difference]`. Both ends belong to a window. So the windows show each content that a
    window of this length can have as it slides over the rows. A window fires when the watermark has passed its end;
    rows that come later make windows fire again, until the watermark has passed the end by `discard_age`: then it is
    closed (docs/semantics.md section 18).

    Durations: text such as `"10 minutes"`, a `timedelta`, `minutes(10)`, or seconds as a number.

    Args:
        difference: how far apart the times of two rows of a window are at most, > 0.
        discard_age: how long a complete window still takes late rows, >= 0.
        right: whether there are windows that begin after a row; `False`: only those that end at one.
        emit: which firings a window has, as for `TimeInterval`: `"on_complete"`; `"on_close"`, one when it closes;
            `"on_update"`, also one after each micro-batch that changed it, or made it.

    Raises:
        DeclarationError: a duration out of its range.

    >>> window = SlidingByRow("10 minutes", discard_age="1 hour")
    """

    refused: ClassVar[Mapping[str, str]] = {
        "late": "a row is late once every window that may have it is closed, so leave it out",
        "partition_eviction": "windows by row have none, because they close when the watermark passes their end and "
        "discard_age: set discard_age instead",
    }
    difference: Duration
    _: KW_ONLY
    discard_age: Duration = 0
    right: bool = True
    emit: Emit = "on_complete"

    def __post_init__(self) -> None:
        require_positive(self.difference, "difference")
        require_age(self.discard_age)
        _require_bool(self.right, "right")
        require_emit(self.emit)

    @property
    def difference_us(self) -> int:
        """How far apart two rows of a window are at most, in microseconds."""
        return to_us(self.difference, "difference")

    @property
    def age_us(self) -> int:
        """How long a complete window takes late rows, in microseconds of event time."""
        return to_us(self.discard_age, "discard_age")

    @property
    def reach_us(self) -> int:
        """How far behind the watermark a row is late, in microseconds: the newest window that has it is closed then."""
        return self.difference_us + 1 + self.age_us

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {
            "kind": "slidingByRow",
            "difference_us": self.difference_us,
            "discard_age_us": self.age_us,
            "right": self.right,
            **({} if self.emit == "on_complete" else {"emit": self.emit}),
        }


BatchedOutput = Literal["content", "entered", "left"]
"""The rows of a batched window that an aggregate is computed from (docs/semantics.md section 1.6)."""

EVERY_TUPLE = Count(1)
"""The trigger of a sliding window that declares none."""

_NEVER_LATE = dict.fromkeys(("discard_age", "late", "refire"), "a row in arrival order is never late, so leave it out")

CatchUp = Literal["once", "each", "skip"]
"""What happens to wall-clock work that became due while the process was down (docs/semantics.md section 7.5)."""


@with_named_options
@dataclass(frozen=True)
class Tumbling(WindowOptions):
    """Keeps rows until the window is full, then evicts all at once and starts over (docs/semantics.md section 2).

    `Tumbling(Time(30))` goes by arrival time, the wall clock: every 30 seconds, whatever the rows say. For windows of
    30 seconds of event time, use `TimeInterval(30)`.

    Args:
        evict: when it is full: `Count(3)`, `Time("30 seconds")`, `Delta("temperature", 1.5)` or `Punctuation()`; or
            `AnyOf(Count(100), Time("30 seconds"))`, whichever is first.
        aligned: whether periods of time count from the epoch, so that all partitions tumble at `:00` and `:30`, and not
            each from its first row.
        partition_eviction: when a whole partition is evicted: `PartitionAge`, `PartitionCount` or `TupleCount`.
        catch_up: after an outage, tumble `"once"` if overdue (default), `"each"` missed period, or `"skip"` them.
        passes_marks: whether the log gets a row for every tumble, so that a job which reads the log finds the end of
            each: aggregates of no rows for an empty one, nulls where an operator emitted nothing.

    Raises:
        DeclarationError: the policy cannot evict from a tumbling window.
    """

    refused: ClassVar[Mapping[str, str]] = {
        **_NEVER_LATE,
        "trigger": "a tumbling window fires when it is full, by evict; Sliding has a trigger",
    }
    evict: Policy
    _: KW_ONLY
    partition_eviction: Policy | None = None
    catch_up: CatchUp = "once"
    passes_marks: bool = False
    aligned: bool = False

    def __post_init__(self) -> None:
        require_role(self.evict, Role.TUMBLE, "evict")
        _require_bool(self.passes_marks, "passes_marks")
        _require_alignable(self.aligned, self.evict)
        _check_common_options(self.partition_eviction, self.catch_up)

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        own: dict[str, Any] = {"kind": "tumbling", "evict": self.evict.declaration()}
        own |= {name: True for name in ("passes_marks", "aligned") if getattr(self, name)}
        return own | _declare_common_options(self.partition_eviction)


@with_named_options
@dataclass(frozen=True, kw_only=True)
class Sliding(WindowOptions):
    """Keeps the newest rows and fires by a trigger of its own; every pair of policies is allowed.

    `Time` as either policy goes by arrival time, the wall clock. For windows that slide over event time, use
    `TimeInterval(60, creation_period=10)`. The rules are docs/semantics.md section 3.

    Args:
        evict: which rows leave: `Count(10)`, `Time("5 minutes")` (older than, strictly) or `Delta("age", 2)`; or
            `AllOf(Time("1 minute"), Count(100))`: a row stays only while both keep it.
        trigger: when it fires: `Count(1)` (every row) by default, `Time("1 minute")` or `Delta("age", 0)`; or
            `AnyOf(Count(10), Time("1 minute"))`, whichever is first.
        when_full: whether a partition fires only once its window has been full: its INITIAL_FULL comes first.
        aligned: whether the periods of the trigger count from the epoch, and not from the first row of each partition.
        partition_eviction: when a whole partition is evicted: `PartitionAge`, `PartitionCount` or `TupleCount`.
        catch_up: after an outage, run an overdue time trigger `"once"` (default), for `"each"` missed period, or
            `"skip"` it.

    Raises:
        DeclarationError: a policy that cannot be there, such as a punctuation.
    """

    refused: ClassVar[Mapping[str, str]] = {
        **_NEVER_LATE,
        "size": "it goes by policies, in arrival order; for windows that overlap in event time use "
        'TimeInterval("1 hour", creation_period="20 minutes") instead',
    }
    evict: Policy
    trigger: Policy = EVERY_TUPLE
    partition_eviction: Policy | None = None
    catch_up: CatchUp = "once"
    when_full: bool = False
    aligned: bool = False

    def __post_init__(self) -> None:
        require_role(self.evict, Role.EVICT, "evict")
        require_role(self.trigger, Role.FIRE, "trigger")
        _require_bool(self.when_full, "when_full")
        if self.when_full and isinstance(self.evict, Time):
            raise DeclarationError(
                f"when_full is True, but with {self.evict!r} a window is full from its first row on; leave it out, or "
                "let a number of rows evict, as in AllOf(Time(60), Count(100))"
            )
        _require_alignable(self.aligned, self.trigger)
        _check_common_options(self.partition_eviction, self.catch_up)

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        own: dict[str, Any] = {
            "kind": "sliding",
            "evict": self.evict.declaration(),
            "trigger": self.trigger.declaration(),
        }
        own |= {name: True for name in ("when_full", "aligned") if getattr(self, name)}
        return own | _declare_common_options(self.partition_eviction)


@with_named_options
@dataclass(frozen=True, kw_only=True)
class Batched(WindowOptions):
    """Changes its content only in batches: at a fixed period, or after a number of rows (docs/semantics.md section 8).

    `Batched(within=1.5, every=1.0)` keeps rows for 1.5 s from their arrival and changes once a second;
    `Batched(retain=4, every=2)` keeps the last 4 and changes with every second row;
    `Batched(within=2, every=1, retain=3)` keeps the last 3 of the last 2 s and changes once a second.
    These are times of arrival, by the wall clock, never event times.

    Args:
        every: a duration where `within` is given, else a number of rows.
        within: how long a row stays, counted from its arrival; at exactly that age it has left.
        retain: how many rows are kept at most.
        aligned: whether the instants of batches count from the epoch, and not from the start of the job.
        stream: the rows of each update that aggregates are computed from: the `"content"`, those that `"entered"`
            (Apama's istream) or those that `"left"` (its rstream); where none did, there is no result.
        partition_eviction: when a whole partition is evicted: `PartitionAge`, `PartitionCount` or `TupleCount`.
        catch_up: after an outage, run overdue batches as one, `"once"` (default), run `"each"`, or `"skip"` them.

    Raises:
        DeclarationError: neither `within` nor `retain`, or a size that is not greater than 0.
    """

    refused: ClassVar[Mapping[str, str]] = {
        **_NEVER_LATE,
        "trigger": "a batched window fires at each update; Sliding has a trigger",
    }
    every: Duration
    within: Duration | None = None
    retain: int | None = None
    stream: BatchedOutput = "content"
    partition_eviction: Policy | None = None
    catch_up: CatchUp = "once"
    aligned: bool = False

    def __post_init__(self) -> None:
        require_one_of(("content", "entered", "left"), self.stream, "stream")
        if self.within is None and self.retain is None:
            raise DeclarationError("a batched window needs within (a duration), retain (a number of rows) or both")
        if self.retain is not None:
            object.__setattr__(self, "retain", require_count(self.retain, "retain"))
        if self.within is None:
            rows = require_count(self.every, "every, which without within is a number of rows,")
            object.__setattr__(self, "every", rows)
        else:
            require_positive(self.within, "within")
            require_positive(self.every, "every")
        _require_alignable(self.aligned, None if self.within is None else Time(self.every))
        _check_common_options(self.partition_eviction, self.catch_up)

    @property
    def within_us(self) -> int | None:
        """How long a row stays, in microseconds; None if rows are only counted."""
        return None if self.within is None else to_us(self.within, "within")

    @property
    def every_us(self) -> int | None:
        """Time between two batches in microseconds; None if rows are counted."""
        return None if self.within is None else to_us(self.every, "every")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        every = self.every if self.within is None else self.every_us
        own: dict[str, Any] = {"kind": "batched", "within_us": self.within_us, "every": every, "retain": self.retain}
        own["stream"] = self.stream
        own |= {"aligned": True} if self.aligned else {}
        return own | _declare_common_options(self.partition_eviction)


ArrivalWindow = Tumbling | Sliding | Batched
"""Windows over rows in arrival order; their time is the wall clock, or the declared arrival time."""

EventTimeWindow = TimeInterval | Session | SlidingByRow
"""Windows over event time: the watermark drives them."""

Window = EventTimeWindow | ArrivalWindow
"""Every window that can be declared."""


def row_policies(window: Window) -> tuple[Policy, ...]:
    """Return the policies of a window that rows are evicted or fired by: its eviction policy, its trigger."""
    policies = (getattr(window, "evict", None), getattr(window, "trigger", None))
    return tuple(policy for policy in policies if policy is not None)


def columns_of_policies(window: Window) -> tuple[tuple[Policy, str], ...]:
    """Return the policies of a window that read a column, each with its column."""
    read = ((policy, column_read_by(policy)) for policy in row_policies(window))
    return tuple((policy, column) for policy, column in read if column is not None)


def panes_meant(window: ArrivalWindow) -> str | None:
    """Return the window of event time that is most like one by the wall clock, as its call; None if no time counts.

    >>> panes_meant(Sliding(evict=Time("1 hour"), trigger=Time("5 minutes")))
    "TimeInterval('1 hour', creation_period='5 minutes')"
    """
    length: Duration | None
    period: Duration | None
    if isinstance(window, Batched):
        length, period = window.within, None if window.within is None else window.every
    else:
        length, period = _time_of(window.evict), _time_of(getattr(window, "trigger", None))
    if length is None:
        return None if period is None else f"TimeInterval({_shown(period)})"
    if isinstance(window, Tumbling):
        return f"TimeInterval({_shown(length)})"
    if period is None:
        return f"SlidingByRow({_shown(length)})"
    return f"TimeInterval({_shown(length)}, creation_period={_shown(period)})"


def _time_of(policy: Policy | None) -> Duration | None:
    policy = policy.time if isinstance(policy, AnyOf | AllOf) else policy
    return policy.size if isinstance(policy, Time) else None


def _shown(duration: Duration) -> str:
    return repr(duration if isinstance(duration, str) else us_text(to_us(duration, "the duration")))


def _require_bool(given: object, what: str) -> None:
    if not isinstance(given, bool):  # a caller without a type checker may give anything
        raise DeclarationError(f"{what} is {given!r}; it must be True or False")


def _require_alignable(aligned: object, policy: Policy | None) -> None:
    """Raise `DeclarationError` for a window that is to be aligned and has no period of time."""
    _require_bool(aligned, "aligned")
    if aligned and not isinstance(policy, Time | AnyOf):
        raise DeclarationError("aligned is True, but no period of time counts in this window; leave it out")


def _check_common_options(partition_eviction: Any, catch_up: Any) -> None:
    if partition_eviction is not None:
        require_role(partition_eviction, Role.EVICT_PARTITIONS, "partition_eviction")
    require_one_of(("once", "each", "skip"), catch_up, "catch_up")


def _declare_common_options(partition_eviction: Policy | None) -> dict[str, Any]:
    return {"partition_eviction": None if partition_eviction is None else partition_eviction.declaration()}
