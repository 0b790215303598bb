"""Options that cannot act in a history, and two ways to declare one thing: what can be declared instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from panekeeper.framework.testing.every_cut import _Case, _Row
from panekeeper.framework.testing.script import Clock, Restart, Watermark
from tests.laws.calls import Call, call
from tests.laws.declarations import Declaration
from tests.laws.playing import Play, columns_of

NEVER = 10_000_000
"""So many rows, or seconds, do not come."""
OF_PANES = ("TimeInterval", "Cumulate", "Calendar")
DEPENDS_ON_PATH = ("agg.count_distinct", "agg.top_k", "agg.user")
"""Of each slice so many values are kept (section 11); a row that is refused is left out, or takes the firing (12.2)."""


Shows = Callable[[Play, frozenset[str]], Mapping[str, list[str]]]


def all_rows(play: Play, without: frozenset[str]) -> Mapping[str, list[str]]:
    """Return all rows of the log."""
    return play.by_place(without=without)


@dataclass(frozen=True)
class Change:
    """A declaration that is another one, and has the same results.

    Attributes:
        name: the law.
        declaration: what is declared instead.
        case: what happens instead, in both plays.
        base: what it is compared with, if not with the base play.
        without: columns that may differ.
        shows: what of a play is the same, without these columns.
    """

    name: str
    declaration: Declaration
    case: _Case | None = None
    base: Declaration | None = None
    without: frozenset[str] = frozenset()
    shows: Shows = all_rows


def changes(declaration: Declaration, case: _Case) -> Iterator[Change]:
    """Yield what may be declared instead of a declaration with one window and aggregates."""
    window = declaration.window
    if window is None:
        return
    if window.name in OF_PANES:
        yield from _of_panes(declaration, window)
    if window.name == "Session":
        yield from _of_sessions(declaration, window, case)
    if window.name in OF_PANES:  # of sessions others are replaced (15.3)
        yield from _of_last_firings(declaration, window, case)
    if window.name in ("Tumbling", "Sliding"):
        yield from _of_policies(declaration, window)
    if window.name in ("Tumbling", "Sliding", "Batched"):
        yield from _of_arrival(declaration, window, case)
    yield from _of_streams(declaration, window)


def _with(declaration: Declaration, window: Call) -> Declaration:
    return declaration.but(window=window)


def _has_plain_rules(window: Call) -> bool:
    return not window.options.keys() & {"emit", "early", "refire", "results", "fires_when", "fill"}


def _of_panes(declaration: Declaration, window: Call) -> Iterator[Change]:
    paths = frozenset(columns_of(declaration, DEPENDS_ON_PATH))
    groups = "group_within" in declaration.options
    if _has_plain_rules(window):
        early = call("Every", rows=NEVER)
        yield Change("an early firing that never comes", _with(declaration, window.but(early=early)), without=paths)
        early = call("Every", event_time=NEVER * 1000)
        if declaration.begin > 0:  # the watermark passes the multiple 0 otherwise
            yield Change("an early firing that never comes", _with(declaration, window.but(early=early)), without=paths)
        merges = not columns_of(declaration, ("agg.collect",)) and "Texts" not in repr(declaration.options)
        if merges and "Total" not in repr(declaration.options) and not groups:
            never = window.but(fires_when=f"count() > {NEVER}")
            yield Change("a condition that never holds", _with(declaration, never), without=paths)
        if window.get("discard_age") is None:
            yield Change("without late rows on_close is on_complete", _with(declaration, window.but(emit="on_close")))
    accumulates = window.get("results") in (None, "accumulating")
    if accumulates and not groups and not window.options.keys() & {"fires_when", "fill"}:
        retracting = _with(declaration, window.but(results="retracting"))
        yield Change("what is retracted apart, all is shown", retracting, without=paths, shows=_not_taken)
    if window.name == "Cumulate" and window.args[0] == window.args[1]:
        whole = Call("TimeInterval", window.args[1:], window.options)
        yield Change("one step is a TimeInterval", _with(declaration, whole), without=paths)
    if window.name == "TimeInterval" and window.get("creation_period") is None:
        step = Call("Cumulate", (*window.args, *window.args), window.options)
        yield Change("a TimeInterval is one step", _with(declaration, step), without=paths)
    is_day = window.name == "Calendar" and window.args == ("day",)
    if is_day and window.get("zone") == "UTC" and not window.get("starts"):
        days = Call("TimeInterval", (86_400,), window.but(zone=None).options)
        yield Change("a day in UTC has 24 hours", _with(declaration, days), without=paths)


def _not_taken(play: Play, without: frozenset[str]) -> Mapping[str, list[str]]:
    """Return the rows that take nothing back."""
    found, full = play.by_place(without=without | {"op"}), play.by_place()
    return {
        place: [row for row, whole in zip(rows, full[place], strict=True) if " op=-1 " not in whole]
        for place, rows in found.items()
    }


def _of_sessions(declaration: Declaration, window: Call, case: _Case) -> Iterator[Change]:
    paths = frozenset(columns_of(declaration, DEPENDS_ON_PATH))
    if window.get("max_duration") is None:
        longest = _with(declaration, window.but(max_duration=NEVER))
        yield Change("a session that is never too long", longest, without=paths)
    gap = window.args[0]
    if isinstance(gap, int) and window.get("max_duration") is None:
        items = tuple(
            _Row(one.port, {**one.row, "gap": float(gap)}) if isinstance(one, _Row) else one for one in case.items
        )
        column = _with(declaration, Call("Session", ("gap",), window.options))
        name, case = "a gap of each row that is always the same", replace(case, items=items)
        yield Change(name, column, case=case, base=declaration, without=paths)
    if _has_plain_rules(window):
        early = call("Every", rows=NEVER)
        yield Change("an early firing that never comes", _with(declaration, window.but(early=early)), without=paths)
        if window.get("discard_age") is None:
            yield Change("without late rows on_close is on_complete", _with(declaration, window.but(emit="on_close")))


RULES = ("emit", "early", "refire", "results", "fires_when", "then", "fill", "fill_for")


def _of_last_firings(declaration: Declaration, window: Call, case: _Case) -> Iterator[Change]:
    """Yield that the last firing of a pane shows all of its rows, whatever it fires by."""
    keeps = window.get("then") is None and window.get("results") != "discarding"
    if declaration.follows or not keeps or "group_within" in declaration.options:
        return
    if not any(isinstance(one, Watermark) and one.to == "9999-12-31" for one in case.items):
        return
    plain = _with(declaration, window.but(**dict.fromkeys(RULES)))
    on_close = _with(declaration, window.but(**{**dict.fromkeys(RULES), "emit": "on_close"}))
    paths = frozenset(columns_of(declaration, DEPENDS_ON_PATH))

    def last(play: Play, without: frozenset[str]) -> Mapping[str, list[str]]:
        apart = without | {"op", "refinement", "reason", "is_final"}
        found = dict[str, list[str]]()
        for place, rows in play.by_place(without=apart).items():
            if "reason='FILLED'" not in play.by_place()[place][-1]:
                found[place] = rows[-1:]
        return found

    if window.options.keys() & set(RULES):
        yield Change("the last firing of a pane shows all of its rows", plain, without=paths, shows=last)
    if window.get("emit") != "on_close":
        yield Change("on_close fires with what the last firing has", on_close, without=paths, shows=last)


def _of_policies(declaration: Declaration, window: Call) -> Iterator[Change]:
    paths = frozenset(columns_of(declaration, DEPENDS_ON_PATH))
    evict = window.args[0] if window.args else window.get("evict")
    trigger = window.get("trigger")
    never, many = call("Time", NEVER), call("Count", NEVER)

    def either(policy: Call) -> Call | None:
        if policy.name == "Count":
            return call("AnyOf", policy, never)
        return call("AnyOf", many, policy) if policy.name == "Time" else None

    if window.name == "Tumbling" and (both := either(evict)) is not None:
        either_of = Call("Tumbling", (both,), window.options)
        yield Change("AnyOf with what never comes", _with(declaration, either_of), without=paths)
    if window.name == "Sliding":
        if trigger is not None and (both := either(trigger)) is not None:
            yield Change("AnyOf with what never comes", _with(declaration, window.but(trigger=both)), without=paths)
        if evict.name == "Count":
            kept = call("AllOf", evict, never)
            yield Change("AllOf with an age that no row has", _with(declaration, window.but(evict=kept)), without=paths)
        if evict.name == "Time":
            kept = call("AllOf", evict, many)
            name = "AllOf with more rows than there are"
            yield Change(name, _with(declaration, window.but(evict=kept)), without=paths)
        if trigger is None:
            yield Change("the trigger is Count(1)", _with(declaration, window.but(trigger=call("Count", 1))))


def _of_arrival(declaration: Declaration, window: Call, case: _Case) -> Iterator[Change]:
    if declaration.options.get("partition_by") is not None and window.get("partition_eviction") is None:
        for limit in ("PartitionAge", "PartitionCount", "TupleCount", "RowsInEach"):
            never = window.but(partition_eviction=call(limit, NEVER))
            yield Change("partitions that are never evicted", _with(declaration, never))
    has_outage = any(isinstance(one, Restart) for one in case.items) or any(
        isinstance(one, Clock) and one.us > 60_000_000 for one in case.items
    )
    if not has_outage and "arrival_time" not in declaration.options:
        for catch_up in ("once", "each", "skip"):
            if catch_up != window.get("catch_up"):
                other = _with(declaration, window.but(catch_up=catch_up))
                yield Change("without an outage nothing is caught up", other)


def _of_streams(declaration: Declaration, window: Call) -> Iterator[Change]:
    options = declaration.options
    in_event_time = "event_time" in options
    if in_event_time and "dedupe" not in options and not declaration.follows:
        yield Change("no id comes twice", declaration.but(dedupe="n", dedupe_for=1))
    if "reject" not in options:
        yield Change("no row is rejected", declaration.but(reject={"NEVER": "v = 123456"}))
    uses_marks = window.args[:1] == (call("Punctuation"),)
    if not uses_marks and not options.keys() & {"punctuation", "marks", "order_by"}:
        paths = frozenset(columns_of(declaration, DEPENDS_ON_PATH))
        if not declaration.follows:  # with when_idle the watermark is another one's
            yield Change("marks mean nothing here", declaration.but(punctuation="m = 'end'"), without=paths)
    has_groups = bool(options.keys() & {"group_within", "top", "by"})
    if in_event_time and not has_groups and not declaration.follows:
        rest = {name: one for name, one in options.items() if name != "window"}
        yield Change(
            "the only one of several windows",
            replace(declaration, options={"windows": {"only": window}, **rest}),
            shows=_without_name,
        )


def _without_name(play: Play, without: frozenset[str]) -> Mapping[str, list[str]]:
    """Return the rows of the only window as if it had no name."""
    return {
        place.removeprefix("window only, ").replace("window only", "the log"): rows
        for place, rows in play.by_place(without=without).items()
    }
