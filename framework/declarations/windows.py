"""What a window is: declarations, validated where they are written.

Nothing here runs. A declaration says what the user wants and refuses what cannot be [semantics 0.8]; the running
half is in `framework.core`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from framework.declarations.durations import Duration, to_us
from framework.declarations.errors import DeclarationError
from framework.declarations.policies import Count, Delta, Eviction, PartitionEviction, Punctuation, Trigger

Late = Literal["pane", "tuple"]
"""When a late row is dropped: once every pane it belongs to is closed, or once it is older than the discard age."""


@dataclass(frozen=True)
class TimeInterval:
    """Panes of equal length in event time: `[k * period + offset, k * period + offset + duration)` [S0][S1].

    A pane completes, and fires, when the watermark reaches its end. Rows that come later still join it and make
    it fire again at the next advancing watermark, until the watermark reaches its end plus `discard_age`: then
    it is closed and forgotten.

    Args:
        interval_duration: length of a pane, > 0. All durations: seconds, `timedelta`, or `hours(1)`.
        creation_period: distance between the starts of adjacent panes, > 0; the duration if not given (panes
            that touch). Shorter makes panes overlap; longer leaves gaps, and a row in a gap joins no pane.
        discard_age: how long a complete pane still takes late rows, >= 0.
        interval_offset: a point in time that coincides with the start of a pane, in `[0, interval_duration)`.
        late: `"pane"` drops a late row only if every pane it belongs to is closed; `"tuple"` drops it once it is
            older than the watermark by more than `discard_age` [semantics 0.3].

    Raises:
        DeclarationError: a duration out of its range; the message names the value and the rule.

    >>> TimeInterval(3600, creation_period=1200, discard_age=6 * 3600).period_us
    1200000000
    """

    interval_duration: Duration
    _: KW_ONLY
    creation_period: Duration | None = None
    discard_age: Duration = 0
    interval_offset: Duration = 0
    late: Late = "pane"

    def __post_init__(self) -> None:
        if self.duration_us <= 0:
            raise DeclarationError(f"interval_duration is {self.interval_duration!r}; it must be greater than 0 [S0]")
        if self.period_us <= 0:
            raise DeclarationError(f"creation_period is {self.creation_period!r}; it must be greater than 0 [S0]")
        if self.age_us < 0:
            raise DeclarationError(f"discard_age is {self.discard_age!r}; it must not be negative [S0]")
        if not 0 <= self.offset_us < self.duration_us:
            raise DeclarationError(
                f"interval_offset is {self.interval_offset!r}; it must be in [0, interval_duration) = "
                f"[0, {self.duration_us / 1e6:g} s) [S0]"
            )
        if self.late not in ("pane", "tuple"):
            raise DeclarationError(f"late is {self.late!r}; it must be 'pane' or 'tuple'")

    @property
    def duration_us(self) -> int:
        """Length of a pane, us."""
        return to_us(self.interval_duration, "interval_duration")

    @property
    def period_us(self) -> int:
        """Distance between the starts of adjacent panes, us."""
        if self.creation_period is None:
            return self.duration_us
        return to_us(self.creation_period, "creation_period")

    @property
    def age_us(self) -> int:
        """How long a complete pane takes late rows, us of event time."""
        return to_us(self.discard_age, "discard_age")

    @property
    def offset_us(self) -> int:
        """A start of a pane, us after the epoch."""
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
        }


Stream = Literal["content", "entered", "left"]
"""What an aggregate of a batched window is computed from [S4]."""

EVERY_TUPLE = Count(1)
"""The trigger of a sliding window that declares none."""

CatchUp = Literal["once", "each", "skip"]
"""What happens to wall-clock work that fell due while the process was down [semantics 0.7]."""


@dataclass(frozen=True)
class Tumbling:
    """Stores tuples until the window is full, then lets all of them go at once, and starts over [S2].

    Args:
        evict: when it is full: `Count(3)`, `Time(30)`, `Delta("temperature", 1.5)` or `Punctuation()`.
        partition_eviction: when a whole partition goes: `PartitionAge`, `PartitionCount` or `TupleCount`.
        catch_up: after an outage, tumble `"once"` if overdue (default), `"each"` missed period, or `"skip"` them.

    Raises:
        DeclarationError: the policy cannot evict from a tumbling window.
    """

    evict: Eviction
    _: KW_ONLY
    partition_eviction: PartitionEviction | None = None
    catch_up: CatchUp = "once"

    def __post_init__(self) -> None:
        if not isinstance(self.evict, Eviction):
            raise DeclarationError(f"evict is {self.evict!r}; it must be Count, Time, Delta or Punctuation")
        if isinstance(self.evict, Delta) and self.evict.us <= 0:
            raise DeclarationError(f"the size of Delta is {self.evict.size!r}; for eviction it must be greater than 0")
        _check_common(self.partition_eviction, self.catch_up)

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        return {"kind": "tumbling", "evict": self.evict.declaration()} | _common(self.partition_eviction)


@dataclass(frozen=True, kw_only=True)
class Sliding:
    """Keeps the newest tuples and fires on its own policy; every pair of policies goes together [S3][semantics 3].

    Args:
        evict: which tuples leave: `Count(10)`, `Time(5)` (older than, strictly) or `Delta("age", 2)`.
        trigger: when it fires: `Count(1)` (every tuple) by default, `Time(5)` or `Delta("age", 0)`.
        partition_eviction: when a whole partition goes.
        catch_up: what becomes of time triggers missed in an outage.

    Raises:
        DeclarationError: a policy that cannot be there, such as a punctuation.
    """

    evict: Eviction
    trigger: Trigger = EVERY_TUPLE
    partition_eviction: PartitionEviction | None = None
    catch_up: CatchUp = "once"

    def __post_init__(self) -> None:
        for name, policy in (("evict", self.evict), ("trigger", self.trigger)):
            if isinstance(policy, Punctuation):
                raise DeclarationError(f"{name} is Punctuation(); a sliding window takes Count, Time or Delta")
            if not isinstance(policy, Trigger):
                raise DeclarationError(f"{name} is {policy!r}; a sliding window takes Count, Time or Delta")
        if isinstance(self.evict, Delta) and self.evict.us <= 0:
            raise DeclarationError(f"the size of Delta is {self.evict.size!r}; for eviction it must be greater than 0")
        _check_common(self.partition_eviction, self.catch_up)

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        own = {"kind": "sliding", "evict": self.evict.declaration(), "trigger": self.trigger.declaration()}
        return own | _common(self.partition_eviction)


@dataclass(frozen=True, kw_only=True)
class Batched:
    """Changes its content only in batches: every so many seconds, or every so many tuples [S4].

    `Batched(within=1.5, every=1.0)` keeps tuples for 1.5 s from their arrival and changes once a second;
    `Batched(retain=4, every=2)` keeps the last 4 and changes with every second tuple;
    `Batched(within=2, every=1, retain=3)` keeps the last 3 of the last 2 s and changes once a second.

    Args:
        every: seconds where `within` is given, else tuples.
        within: how long a tuple lives, counted from its arrival; at exactly that age it is gone.
        retain: how many tuples are kept at most.
        stream: what aggregates see of each update: the `"content"`, what `"entered"` (istream) or `"left"` (rstream).
        partition_eviction: when a whole partition goes.
        catch_up: what becomes of batches missed in an outage.

    Raises:
        DeclarationError: neither `within` nor `retain`, or a size that is not greater than 0.
    """

    every: Duration
    within: Duration | None = None
    retain: int | None = None
    stream: Stream = "content"
    partition_eviction: PartitionEviction | None = None
    catch_up: CatchUp = "once"

    def __post_init__(self) -> None:
        if self.stream not in ("content", "entered", "left"):
            raise DeclarationError(f"stream is {self.stream!r}; it must be 'content', 'entered' or 'left' [S4]")
        if self.within is None and self.retain is None:
            raise DeclarationError("a batched window needs within (seconds), retain (tuples) or both [S4]")
        if self.retain is not None:
            Count(self.retain)
        if self.within is None:
            Count(self.every)  # type: ignore[arg-type]
        else:
            for name, value in (("within", self.within), ("every", self.every)):
                if to_us(value, name) <= 0:
                    raise DeclarationError(f"{name} is {value!r}; it must be greater than 0")
        _check_common(self.partition_eviction, self.catch_up)

    @property
    def within_us(self) -> int | None:
        """Lifetime of a tuple in microseconds."""
        return None if self.within is None else to_us(self.within, "within")

    @property
    def every_us(self) -> int | None:
        """Time between two batches in microseconds; None if tuples are counted."""
        return None if self.within is None else to_us(self.every, "every")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint."""
        every = self.every if self.within is None else self.every_us
        own = {"kind": "batched", "within_us": self.within_us, "every": every, "retain": self.retain}
        own["stream"] = self.stream
        return own | _common(self.partition_eviction)


Sequence = Tumbling | Sliding | Batched
"""Windows over tuples in arrival order; their time is the wall clock."""

Window = TimeInterval | Sequence
"""Every window that can be declared."""


def delta_attributes(window: Window) -> tuple[str, ...]:
    """Return the columns that the window's delta policies read, each once."""
    policies = (getattr(window, "evict", None), getattr(window, "trigger", None))
    return tuple(dict.fromkeys(policy.attribute for policy in policies if isinstance(policy, Delta)))


def _check_common(partition_eviction: Any, catch_up: Any) -> None:
    if partition_eviction is not None and not isinstance(partition_eviction, PartitionEviction):
        raise DeclarationError(
            f"partition_eviction is {partition_eviction!r}; it must be one of PartitionAge, PartitionCount, TupleCount"
        )
    if catch_up not in ("once", "each", "skip"):
        raise DeclarationError(f"catch_up is {catch_up!r}; it must be 'once', 'each' or 'skip'")


def _common(partition_eviction: PartitionEviction | None) -> dict[str, Any]:
    return {"partition_eviction": None if partition_eviction is None else partition_eviction.declaration()}
