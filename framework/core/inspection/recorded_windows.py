"""Which window has recorded these fields (`declaration` of a window, flattened)?

A checkpoint is looked at without the program that declares its job, so the window is built again from what is recorded,
and asked what it would do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from panekeeper.framework.declarations.calendar import Calendar, CalendarStart
from panekeeper.framework.declarations.firing import Every
from panekeeper.framework.declarations.joins import Within
from panekeeper.framework.declarations.policies import AllOf, AnyOf, Count, PartitionAge, Policy, Role, Time, UserPolicy
from panekeeper.framework.declarations.windows import (
    ArrivalWindow,
    Batched,
    Cumulate,
    Session,
    Sliding,
    SlidingByRow,
    TimeInterval,
    Tumbling,
    Window,
)

Fields = Mapping[str, Any]


def window_of(fields: Fields) -> Window | Within:
    """Return the window that has recorded these fields.

    >>> window_of(TimeInterval(60).declaration()).duration_us
    60000000
    """
    made: Callable[[Fields], Window | Within] = _BY_KIND[fields["kind"]]
    return made(fields)


def panes_of(fields: Fields) -> TimeInterval:
    """Return the window of panes that has recorded these fields.

    >>> panes_of(TimeInterval(60, discard_age=5).declaration()).age_us
    5000000
    """
    options = _firing_options(fields) | {"late": fields["late"]}
    options |= {name: fields[name] for name in ("fires_when", "then", "fill") if name in fields}
    if "fill_for_us" in fields:
        options["fill_for"] = _duration(fields["fill_for_us"])
    if "calendar" in fields:
        months, days, time_us = (fields[f"starts_{part}"] for part in ("months", "days", "us"))
        starts = CalendarStart(months=months, days=days, time_us=time_us).text(fields["calendar"])
        return Calendar(fields["calendar"], zone=fields["zone"], starts=starts, **options)
    duration, period = _duration(fields["interval_duration_us"]), _duration(fields["creation_period_us"])
    options["interval_offset"] = _duration(fields["interval_offset_us"])
    if fields.get("cumulates"):
        return Cumulate(period, duration, **options)
    return TimeInterval(duration, creation_period=period, **options)


def session_of(fields: Fields) -> Session:
    """Return the window of sessions that has recorded these fields.

    >>> session_of(Session(60, discard_age=5).declaration()).age_us
    5000000
    """
    most, gap = fields["max_duration_us"], fields["gap"] if "gap" in fields else _duration(fields["gap_us"])
    return Session(gap, max_duration=None if most is None else _duration(most), **_firing_options(fields))


def by_row_of(fields: Fields) -> SlidingByRow:
    """Return the window that has recorded these fields.

    >>> by_row_of(SlidingByRow(60, discard_age=5).declaration()).age_us
    5000000
    """
    difference, age = (_duration(fields[name]) for name in ("difference_us", "discard_age_us"))
    emit = fields.get("emit", "on_complete")
    return SlidingByRow(difference, discard_age=age, right=bool(fields["right"]), emit=emit)


def within_of(fields: Fields) -> Within:
    """Return the join that has recorded these fields.

    >>> within_of(Within(60, 5).declaration()).reach(1)
    (5000000, 60000000)
    """
    before, after, age = (_duration(fields[name]) for name in ("before_us", "after_us", "discard_age_us"))
    return Within(before, after, discard_age=age)


def arrival_of(fields: Fields) -> ArrivalWindow:
    """Return the window in arrival order that has recorded these fields, as far as it is known without the program.

    Policies by what rows say are not: a class of the user's may not be there. One that fires so stands in their place.

    >>> arrival_of(Tumbling(Count(4)).declaration()) == Tumbling(Count(4))
    True
    """
    kind, age = fields["kind"], _nested(fields, "partition_eviction")
    eviction = PartitionAge(_duration(age["size_us"])) if age and age.get("size_us") is not None else None
    if kind == "batched":
        within, every = fields["within_us"], fields["every"]
        if within is None:
            return Batched(retain=fields["retain"], every=every, partition_eviction=eviction)
        timed = _duration(within), _duration(every)
        return Batched(within=timed[0], every=timed[1], retain=fields["retain"], partition_eviction=eviction)
    evict = _policy_of(_nested(fields, "evict"))
    if kind == "tumbling":
        return Tumbling(evict, partition_eviction=eviction)
    trigger, when_full = _policy_of(_nested(fields, "trigger")), bool(fields.get("when_full"))
    return Sliding(evict=evict, trigger=trigger, when_full=when_full, partition_eviction=eviction)


def _policy_of(fields: Fields) -> Policy:
    match fields.get("policy"):
        case "count":
            return Count(fields["size"])
        case "time":
            return Time(_duration(fields["size_us"]))
        case "anyOf":
            return AnyOf(Count(fields["rows"]), Time(_duration(fields["size_us"])))
        case "allOf":
            return AllOf(Count(fields["rows"]), Time(_duration(fields["size_us"])))
    return _ByValues()


@dataclass(frozen=True)
class _ByValues(UserPolicy):
    """In the place of a policy by what rows say, which no row is shown to."""

    attribute: str = ""

    def check_role(self, role: Role, what: str) -> None:
        """Take every role."""


def _firing_options(fields: Fields) -> dict[str, Any]:
    """Return what is recorded of the options that panes and sessions have."""
    options: dict[str, Any] = {"discard_age": _duration(fields["discard_age_us"])}
    options |= {name: fields[name] for name in ("emit", "results") if name in fields}
    rules = {name: _nested(fields, name) for name in ("early", "refire")}
    return options | {name: _every(rule) for name, rule in rules.items() if rule}


def _nested(fields: Fields, name: str) -> Fields:
    """Return what is recorded below a name, be it flattened or not."""
    return fields[name] if name in fields else fields_below(fields, f"{name}.")


def fields_below(fields: Fields, prefix: str) -> dict[str, Any]:
    """Return the fields that begin so, without that."""
    return {name.removeprefix(prefix): value for name, value in fields.items() if name.startswith(prefix)}


def _every(fields: Fields) -> Every:
    if "rows" in fields:
        return Every(rows=fields["rows"])
    if "event_time_us" in fields:
        return Every(event_time=_duration(fields["event_time_us"]))
    return Every(_duration(fields["period_us"]))


def _duration(us: int) -> timedelta:
    return timedelta(microseconds=us)


_BY_KIND: Mapping[str, Callable[[Fields], Window | Within]] = {
    "timeInterval": panes_of,
    "session": session_of,
    "slidingByRow": by_row_of,
    "within": within_of,
    **dict.fromkeys(("tumbling", "sliding", "batched"), arrival_of),
}
