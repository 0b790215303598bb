"""Any declaration that `run` accepts: every window with every option, and all that can be computed of it.

An option that is added to the product is added here, in the function of its window or of the stream. A declaration is
drawn so that it can be: what the builder refuses all the same is counted, and drawn anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hypothesis import strategies as st

from tests.laws.calls import Call, call, made
from tests.laws.user_code import OUTPUT

DRAW = Any
"""`draw` of Hypothesis, which returns what a strategy of any type does."""

COLUMNS = {
    "k": "string",
    "j": "bigint",
    "f": "double",
    "t": "timestamp",
    "at": "timestamp",
    "v": "bigint",
    "w": "double",
    "d": "decimal(10,2)",
    "b": "boolean",
    "s": "string",
    "day": "date",
    "id": "bigint",
    "gap": "double",
    "n": "bigint",
    "m": "string",
    "xs": "array<bigint>",
    "r": "struct<x: bigint, y: string>",
    "ts": "timestamp",
}
"""All columns of every stream. `n` is the number of the row, `m` what marks are known by."""


def schema_of(names: Iterable[str], time: str) -> str:
    """Return the schema of some columns; `time` is the type of event times."""
    return ", ".join(f"{name} {time if name == 't' else COLUMNS[name]}" for name in names)


PANES, SESSION, BY_ROW = "panes", "session", "by_row"
ARRIVAL, WINDOWS, PORTS, JOIN, WITHIN = "arrival", "windows", "ports", "join", "within"
KINDS = (*(3 * [PANES]), *(2 * [SESSION]), BY_ROW, *(3 * [ARRIVAL]), WINDOWS, PORTS, JOIN, WITHIN)

EVERY_KEY: Sequence[Any] = (None, "k", "k", "k", ["k", "j"], "f", "day", ["k", "b"])


@dataclass(frozen=True)
class Declaration:
    """The arguments of `run`, but for the script.

    Attributes:
        kind: of what kind it is.
        options: the arguments, with calls for what is made.
        begin: the seconds since the epoch about which event times lie.
        unit: of event time, in seconds: what durations are multiples of.
        follows: whether the watermark follows the rows.
    """

    kind: str
    options: Mapping[str, Any]
    begin: int = 0
    unit: int = 1
    follows: bool = False

    def but(self, **options: Any) -> Declaration:
        """Return it with other options; without those that are None."""
        changed = {name: one for name, one in {**self.options, **options}.items() if one is not None}
        return replace(self, options=changed)

    @property
    def window(self) -> Call | None:
        """The only window, if it has one."""
        found: Call | None = self.options.get("window")
        return found

    @cached_property
    def all_windows(self) -> list[Call]:
        """All windows of all ports."""
        ports = [one["window"] for one in self.options.get("ports", {}).values() if "window" in one]
        own = [] if self.window is None else [self.window]
        return [*own, *self.options.get("windows", {}).values(), *ports]

    @property
    def ports(self) -> tuple[str | None, ...]:
        """The names of the ports; None for the only one."""
        return tuple(self.options.get("ports", {None: {}}))

    @cached_property
    def has_event_time(self) -> bool:
        """Whether a watermark moves some window."""
        return self.kind in (JOIN, WITHIN) or any(one.name in EVENT_TIME for one in self.all_windows)

    def any_window(self, **options: Any) -> bool:
        """Return whether a window has an option, or has one of these values for it."""
        return any(one.get(name) in wanted for one in self.all_windows for name, wanted in options.items())


EVENT_TIME = ("TimeInterval", "Cumulate", "Calendar", "Session", "SlidingByRow")
ONLY_PANES = ("TimeInterval", "Cumulate", "Calendar")


@st.composite
def declarations(draw: DRAW, kinds: Sequence[str] = KINDS) -> Declaration:
    """Draw a declaration."""
    kind = draw(st.sampled_from(kinds))
    found: Declaration = draw(OF_KIND[kind]())
    return found


# Durations, and what fires.


def few(least: int = 1, most: int = 12) -> st.SearchStrategy[int]:
    """A small number."""
    return st.integers(least, most)


def some(draw: DRAW, strategy: st.SearchStrategy[Any], *, of: int = 2) -> Any:
    """Draw from a strategy, or None: one in `of` times it is something."""
    return draw(strategy) if draw(st.integers(1, of)) == of else None


def every(draw: DRAW, unit: int, *kinds: str) -> Call:
    """Draw how often something fires."""
    kind, size = draw(st.sampled_from(kinds)), draw(few(1, 6))
    if kind == "rows":
        return call("Every", rows=size)
    return call("Every", event_time=size * unit) if kind == "event_time" else call("Every", size)


@dataclass(frozen=True)
class Rules:
    """What some drawn rules of firing mean for what can be computed."""

    options: Mapping[str, Any]
    keeps_no_rows: bool = False
    """Only aggregates that merge."""
    of_aggregates: bool = False
    """Operators are refused."""
    of_one_row: bool = False
    """Groups are refused."""
    by_clock: bool = False
    """No arrival times can be declared."""


FIRES_WHEN = ("n >= 2", "count() >= 3", "sum(v) > 5", "n % 2 == 0", "max(v) - min(v) >= 4")


def firing_rules(
    draw: DRAW, unit: int, age: int, period: int, *, fills: bool, clock: bool = True, of_sessions: bool = False
) -> Rules:
    """Draw the options that say when panes fire, and what a firing shows. `fills`: panes do not overlap."""
    of_panes = () if of_sessions else ("fires_when", "fill", "fill")
    kind = draw(st.sampled_from(("", "emit", "every", "every", "results", *of_panes)))
    results = draw(st.sampled_from((None, "accumulating", "discarding", "retracting")))
    if kind == "emit":
        emit = draw(st.sampled_from(("on_complete", "on_close", "on_update")))
        return _with_results({"emit": emit}, results if draw(st.booleans()) else None)
    if kind == "every":
        kinds = ("rows", "event_time", "clock") if clock else ("rows", "event_time")
        early = some(draw, st.just(0)) is None
        options = {"early": every(draw, unit, *kinds)} if early else {}
        if age and (not early or draw(st.booleans())):
            options["refire"] = every(draw, unit, *(one for one in kinds if one != "event_time"))
        by_clock = any("Every(" in repr(one) and one.args for one in options.values())
        return replace(_with_results(options, results), by_clock=by_clock)
    if kind == "results":
        return _with_results({}, results)
    if kind == "fires_when":
        condition = draw(st.sampled_from(FIRES_WHEN))
        then = draw(st.sampled_from((None, "begin_anew")))
        options = {"fires_when": condition} | ({} if then is None else {"then": then})
        return Rules(options, keeps_no_rows=True, of_aggregates=True, of_one_row=True)
    if kind == "fill" and fills:
        options = {"fill": draw(st.sampled_from(("null", "zero", "last")))}
        options["fill_for"] = period + unit * draw(few(0, 20))
        emit = draw(st.sampled_from((None, "on_close")))
        return Rules(options | ({} if emit is None else {"emit": emit}), of_aggregates=True, of_one_row=True)
    return Rules({})


def _with_results(options: dict[str, Any], results: str | None) -> Rules:
    if results is None:
        return Rules(options)
    is_plain = results == "accumulating"
    return Rules(
        {**options, "results": results},
        keeps_no_rows=results == "discarding",
        of_aggregates=not is_plain,
        of_one_row=results == "retracting",
    )


# Windows of event time.


@dataclass(frozen=True)
class Drawn:
    """A window with what it asks for: rules of firing, and a scale of event time."""

    window: Call
    rules: Rules
    begin: int
    unit: int


BEGINS = (0, -40, 1_700_000_000, 11)
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia")
STARTS = {
    "day": (None, "06:00", "02:30", "23:00"),
    "week": (None, "sunday", "monday 06:00"),
    "month": (None, "day 15", "day 28 03:00"),
    "quarter": (None, "february", "april 06:00"),
    "year": (None, "april", "july 12:00"),
}
HOURS = {"day": 3, "week": 24, "month": 72, "quarter": 240, "year": 960}
"""Unit of a calendar -> how many hours are between two times of a history, at least."""
SHORTEST = {"day": 1, "week": 7, "month": 28, "quarter": 90, "year": 365}
CHANGES = (1_299_800_000, 1_320_000_000, 1_325_200_000, -3_000_000, 1_700_000_000)
"""Some days before clocks change, and before a day that Apia leaves out."""


def panes(draw: DRAW, *, clock: bool = True) -> Drawn:
    """Draw a window of panes."""
    kind = draw(st.sampled_from(("TimeInterval", "TimeInterval", "TimeInterval", "Cumulate", "Calendar")))
    age, late = draw(st.one_of(st.just(0), few(1, 25))), draw(st.sampled_from((None, None, "tuple", "pane")))
    if kind == "Calendar":
        return _calendar(draw, age, late, clock=clock)
    begin = draw(st.sampled_from(BEGINS))
    if kind == "Cumulate":
        step = draw(few(1, 6))
        size = step * draw(few(1, 4))
        offset = some(draw, few(0, size - 1))
        rules = firing_rules(draw, 1, age, step, fills=True, clock=clock)
        options = {"discard_age": age or None, "interval_offset": offset, "late": late}
        return Drawn(call("Cumulate", step, size, **options, **rules.options), rules, begin, 1)
    duration = draw(few())
    period = some(draw, few())
    offset = some(draw, few(0, duration - 1), of=3)
    overlaps = period is not None and period < duration
    rules = firing_rules(draw, 1, age, period or duration, fills=not overlaps, clock=clock)
    options = {"creation_period": period, "discard_age": age or None, "interval_offset": offset, "late": late}
    return Drawn(call("TimeInterval", duration, **options, **rules.options), rules, begin, 1)


def _calendar(draw: DRAW, age: int, late: str | None, *, clock: bool) -> Drawn:
    unit = draw(st.sampled_from(("day", "day", *STARTS)))
    zone, starts = draw(st.sampled_from(ZONES)), draw(st.sampled_from(STARTS[unit]))
    seconds = 3600 * HOURS[unit]
    rules = firing_rules(draw, seconds, age, 86_400 * SHORTEST[unit], fills=True, clock=clock)
    window = call(
        "Calendar", unit, zone=zone, starts=starts, discard_age=age * seconds or None, late=late, **rules.options
    )
    return Drawn(window, rules, draw(st.sampled_from(CHANGES)), seconds)


def session(draw: DRAW, *, clock: bool = True) -> Drawn:
    """Draw a session window."""
    gap = draw(st.one_of(few(1, 8), st.just("gap")))
    most = some(draw, few(1, 15))
    if most is not None and gap != "gap":
        most = max(most, gap)
    age = draw(st.one_of(st.just(0), few(1, 25)))
    rules = firing_rules(draw, 1, age, 1, fills=False, clock=clock, of_sessions=True)
    keeps_rows = gap == "gap" or most is not None
    if keeps_rows and rules.keeps_no_rows:
        rules = Rules({})
    window = call("Session", gap, max_duration=most, discard_age=age or None, **rules.options)
    return Drawn(window, rules, draw(st.sampled_from(BEGINS)), 1)


def by_row(draw: DRAW) -> Drawn:
    """Draw a window by row."""
    age, right = draw(st.one_of(st.just(0), few(1, 25))), draw(st.sampled_from((None, True, False)))
    emit = draw(st.sampled_from((None, None, "on_complete", "on_close", "on_update")))
    window = call("SlidingByRow", draw(few()), discard_age=age or None, right=right, emit=emit)
    return Drawn(window, Rules({}, of_aggregates=True, of_one_row=True), draw(st.sampled_from(BEGINS)), 1)


# Windows in arrival order.


def time_policy(draw: DRAW) -> Call:
    """Draw a policy of time."""
    return call("Time", draw(st.sampled_from((1, 2, 3, 5, 8, 0.5))))


def count_policy(draw: DRAW) -> Call:
    """Draw a policy of a number of rows."""
    return call("Count", draw(few(1, 4)))


def delta_policy(draw: DRAW, *, zero: bool = False) -> Call:
    """Draw a policy of a difference; of 0, if it may be."""
    size = draw(few(0 if zero else 1, 4))
    column = draw(st.sampled_from(("v", "w", "d", "ts", "day")))
    return call("Delta", column, size)


def arrival_window(draw: DRAW, *, partitioned: bool) -> Call:
    """Draw a window in arrival order."""
    kind = draw(st.sampled_from(("Tumbling", "Sliding", "Batched")))
    common: dict[str, Any] = {"catch_up": draw(st.sampled_from((None, "once", "each", "skip")))}
    if partitioned:
        limit = draw(st.sampled_from((*(4 * [None]), "PartitionAge", "PartitionCount", "TupleCount", "RowsInEach")))
        common["partition_eviction"] = None if limit is None else call(limit, draw(few(1, 5)))
    if kind == "Tumbling":
        evict = draw(st.sampled_from(("count", "time", "any", "delta", "punctuation", "budget")))
        policies: dict[str, Callable[[DRAW], Call]] = {
            "count": count_policy,
            "time": time_policy,
            "any": lambda draw: call("AnyOf", count_policy(draw), time_policy(draw)),
            "delta": delta_policy,
            "punctuation": lambda _: call("Punctuation"),
            "budget": lambda draw: call("Budget", "v", draw(few(1, 8))),
        }
        aligned = some(draw, st.just(value=True)) if evict in ("time", "any") else None
        passes = some(draw, st.just(value=True))
        return call("Tumbling", policies[evict](draw), aligned=aligned, passes_marks=passes, **common)
    if kind == "Sliding":
        return _sliding(draw, common)
    within, retain = some(draw, time_policy_size()), some(draw, few(1, 4))
    if within is None and retain is None:
        retain = 2
    size = draw(few(1, 4))
    aligned = some(draw, st.just(value=True)) if within is not None else None
    stream = draw(st.sampled_from((None, "content", "entered", "left")))
    return call("Batched", every=size, within=within, retain=retain, aligned=aligned, stream=stream, **common)


def time_policy_size() -> st.SearchStrategy[float]:
    """How long a batched window keeps a row."""
    return st.sampled_from((1, 2, 3, 5, 8, 1.5))


def _sliding(draw: DRAW, common: Mapping[str, Any]) -> Call:
    evict = draw(st.sampled_from(("count", "time", "time", "all", "delta", "distinct")))
    policies: dict[str, Callable[[DRAW], Call]] = {
        "count": count_policy,
        "time": time_policy,
        "all": lambda draw: call("AllOf", time_policy(draw), count_policy(draw)),
        "delta": delta_policy,
        "distinct": lambda draw: call("DistinctValues", "v", draw(few(1, 3))),
    }
    fires = draw(st.sampled_from(("", "count", "time", "any", "any", "delta", "budget")))
    triggers: dict[str, Callable[[DRAW], Call | None]] = {
        "": lambda _: None,
        "count": count_policy,
        "time": time_policy,
        "any": lambda draw: call("AnyOf", count_policy(draw), time_policy(draw)),
        "delta": lambda draw: delta_policy(draw, zero=True),
        "budget": lambda draw: call("Budget", "v", draw(few(1, 8))),
    }
    full = some(draw, st.just(value=True)) if evict != "time" else None
    aligned = some(draw, st.just(value=True)) if fires in ("time", "any") else None
    options = {"evict": policies[evict](draw), "trigger": triggers[fires](draw)}
    return call("Sliding", **options, when_full=full, aligned=aligned, **common)


# What is computed.

MERGING = (
    call("agg.sum", "v"),
    call("agg.sum", "w"),
    call("agg.sum", "d"),
    call("agg.mean", "v"),
    call("agg.mean", "w"),
    call("agg.mean", "d"),
    call("agg.min", "w"),
    call("agg.max", "v"),
    call("agg.max", "s"),
    call("agg.min", "day"),
    call("agg.max", "ts"),
    call("agg.max", "b"),
    call("agg.count", "s"),
    call("agg.count_if", "v > 1"),
    call("agg.stddev", "v"),
    call("agg.variance", "w"),
    call("agg.skewness", "v"),
    call("agg.covariance", "v", "w"),
    call("agg.corr", "v", "w"),
    call("agg.weighted_mean", "w", "v"),
    call("agg.any", "b"),
    call("agg.all", "b"),
    call("agg.bit_or", "v"),
    call("agg.arg_max", "v", "s"),
    call("agg.arg_min", "w", "n"),
    call("agg.arg_max", "d", "xs"),
    call("agg.first", "v"),
    call("agg.first", "r"),
    call("agg.last", "s"),
    call("agg.last", "xs"),
    call("agg.approx_distinct", "v"),
    call("agg.count_distinct", "s"),
    call("agg.count_distinct", "v", at_most=2),
    call("agg.count_distinct", "w", at_most=2, beyond="approximate"),
    call("agg.top_k", "s", k=2),
    call("agg.top_k", "v", k=1, at_most=3),
    call("agg.quantiles", "v", [0.0, 0.5, 0.9]),
    call("agg.quantiles", "w", [0.5, 1.0]),
    call("agg.quantiles", "d", [0.25, 0.5], exact=True),
    call("agg.histogram", "w", [0, 2, 10]),
    call("agg.top_rows", k=2, by="v desc", columns=["n", "s"]),
    call("agg.top_rows", k=1, by="s, v desc"),
    call("agg.first_row", by="w", columns=["n"]),
    call("agg.last_row", by="ts", columns=["n", "d"]),
    call("agg.user", call("Range"), "w"),
    call("agg.user", call("Choosy"), "v", output="bigint"),
    call("agg.expr", "sum(v) / count()"),
    call("agg.expr", "coalesce(max(w), 0) - min(w) * 2"),
    call("agg.expr", "n % 3 == 1 or not any(b)"),
    call("agg.expr", "nullif(n, 2)"),
)
OF_ROWS = (
    call("agg.collect", "v"),
    call("agg.collect", "s"),
    call("agg.collect", "r"),
    call("agg.user", call("Texts"), "s", output="string"),
    call("agg.user", call("Total"), "v", output="bigint"),
)
"""Aggregates for which a window keeps its rows."""
CONDITIONS = ("v > 1", "s = 'x'", "b")
RESULTS = ("top", "a1", "by", "a3")
"""Names of results: some are those of options of `.aggregate()`."""


def aggregates(draw: DRAW, rules: Rules) -> dict[str, Call]:
    """Draw what is computed, with a count as `n`."""
    menu = MERGING if rules.keeps_no_rows or draw(st.booleans()) else (*MERGING, *(2 * OF_ROWS))
    chosen = draw(st.lists(st.sampled_from(menu), max_size=4, unique_by=repr))
    found = {"n": call("agg.count")}
    for name, one in zip(RESULTS, chosen, strict=False):
        takes_condition = one.name != "agg.count_if"
        where = some(draw, st.sampled_from(CONDITIONS), of=8) if takes_condition else None
        found[name] = one.but(where=where)
    return found


def operator(draw: DRAW, windows: Sequence[Call]) -> dict[str, Any]:
    """Draw an operator for these windows."""
    has_firings = any(one.name != "Tumbling" for one in windows)
    kinds = ["Everything", "Everything", "Firings", "Lasting"] + (["Lifetimes"] if has_firings else [])
    found: dict[str, Any] = {"operator": call(draw(st.sampled_from(kinds))), "output": OUTPUT}
    if draw(st.integers(0, 3)) == 3:
        found["listeners"] = [call("Nosy")]
    return found


def computed(draw: DRAW, drawn: Drawn) -> dict[str, Any]:
    """Draw what is computed of a window."""
    rules = drawn.rules
    if not rules.of_aggregates and draw(st.integers(0, 2)) == 2:
        return operator(draw, [drawn.window])
    takes_groups = drawn.window.name in ONLY_PANES and not rules.of_one_row
    if takes_groups and draw(st.integers(0, 5)) == 5:
        own = aggregates(draw, replace(rules, keeps_no_rows=True))
        options: dict[str, Any] = {"group_within": draw(st.sampled_from(("s", ["s", "b"], "d")))}
        if draw(st.booleans()):
            options |= {"by": draw(st.sampled_from(("n desc", "n"))), "top": draw(few(1, 2))}
            own = {f"a_{name}" if name in options else name: one for name, one in own.items()}
        return {"aggregates": own, **options}
    return {"aggregates": aggregates(draw, rules)}


# The stream.


def stream(draw: DRAW, *, keys: Sequence[Any] = EVERY_KEY, time: str = "timestamp") -> dict[str, Any]:
    """Draw what every stream may have."""
    partition_by = draw(st.sampled_from(keys))
    options: dict[str, Any] = {"schema": schema_of(COLUMNS, time)}
    options |= {} if partition_by is None else {"partition_by": partition_by}
    if draw(st.integers(0, 11)) == 11:
        options["reject"] = {"THREE": "v = 3"}
    if draw(st.integers(0, 9)) == 9:
        options["max_ahead"] = draw(st.sampled_from((1, 3600)))
    if draw(st.integers(0, 9)) == 9:
        options["on_error"] = draw(st.sampled_from(("quarantine", "fail")))
    if draw(st.integers(0, 9)) == 9:
        options["order_by"] = draw(st.sampled_from((["v"], ["id", "s"])))
    marks = draw(st.sampled_from((*(16 * [None]), "punctuation", "marks")))
    return options if marks is None else {**options, marks: "m = 'end'"}


def timed(draw: DRAW, drawn: Drawn, *, ids: bool = True) -> dict[str, Any]:
    """Draw what a stream with event times may have beside."""
    options: dict[str, Any] = {"event_time": "t"}
    if ids and draw(st.integers(0, 5)) == 5:
        options |= {"dedupe": draw(st.sampled_from(("id", ["s", "b"]))), "dedupe_for": drawn.unit * draw(few(1, 30))}
    if not drawn.rules.by_clock and draw(st.integers(0, 9)) == 9:
        options["arrival_time"] = "at"
    return options


def _of_one(draw: DRAW, kind: str, drawn: Drawn) -> Declaration:
    has_zone = drawn.window.get("zone") not in (None, "UTC")
    time = "timestamp_ntz" if not has_zone and draw(st.integers(0, 5)) == 5 else "timestamp"
    options = {"window": drawn.window, **computed(draw, drawn), **stream(draw, time=time), **timed(draw, drawn)}
    follows = draw(st.integers(0, 4)) == 4
    if follows:
        options["watermark"] = drawn.unit * draw(few(0, 6))
        if "arrival_time" not in options and not options.keys() & {"marks", "punctuation"} and draw(st.booleans()):
            options |= {"idle_after": draw(few(1, 10)), "when_idle": "advance"}
    return Declaration(kind, options, drawn.begin, drawn.unit, follows)


@st.composite
def _panes(draw: DRAW) -> Declaration:
    return _of_one(draw, PANES, panes(draw))


@st.composite
def _sessions(draw: DRAW) -> Declaration:
    return _of_one(draw, SESSION, session(draw))


@st.composite
def _by_row(draw: DRAW) -> Declaration:
    return _of_one(draw, BY_ROW, by_row(draw))


@st.composite
def _arrival(draw: DRAW) -> Declaration:
    options = stream(draw)
    window = arrival_window(draw, partitioned="partition_by" in options)
    if window.args[:1] == (call("Punctuation"),) and not options.keys() & {"punctuation", "marks"}:
        options["punctuation"] = "m = 'end'"
    if draw(st.integers(0, 3)) == 3:
        options["arrival_time"] = "at"
        if "order_by" in options:
            options["order_by"] = ["at", *options["order_by"]]
    if draw(st.integers(0, 3)) == 3:
        options |= operator(draw, [window])
    else:
        options["aggregates"] = aggregates(draw, Rules({}))
    return Declaration(ARRIVAL, {"window": window, **options})


@st.composite
def _windows(draw: DRAW) -> Declaration:
    drawn = []
    for _ in range(draw(st.integers(2, 3))):
        kind = draw(st.sampled_from((PANES, PANES, SESSION, BY_ROW)))
        found = {PANES: panes, SESSION: session, BY_ROW: by_row}[kind](draw)
        if found.window.name != "Calendar":  # which has another scale
            drawn.append(found)
    drawn = drawn or [by_row(draw)]
    windows = {f"w{number}": one.window for number, one in enumerate(drawn)}
    rules = Rules({}, by_clock=any(one.rules.by_clock for one in drawn))
    shared = replace(drawn[0], rules=rules)
    of_each = {}
    for number, one in enumerate(drawn):
        of_window = computed(draw, replace(one, rules=replace(one.rules, of_aggregates=True)))
        of_each[f"w{number}"] = {**of_window.pop("aggregates"), **of_window}
    options = {"windows": windows, "aggregates": of_each, **stream(draw), **timed(draw, shared)}
    follows = draw(st.integers(0, 4)) == 4
    if follows:
        options["watermark"] = draw(few(0, 6))
    return Declaration(WINDOWS, options, drawn[0].begin, 1, follows)


@st.composite
def _ports(draw: DRAW) -> Declaration:
    options = stream(draw, keys=("k", "k", ["k", "j"], None))
    for name in ("order_by", "punctuation", "marks"):  # of each stream
        options.pop(name, None)
    own, kinds = dict[str, dict[str, Any]](), (PANES, SESSION, ARRIVAL)
    begin = 0
    for name in ("a", "b"):
        kind = draw(st.sampled_from(kinds))
        if kind == ARRIVAL:
            window = arrival_window(draw, partitioned="partition_by" in options)
            own[name] = {"window": window}
            if window.args[:1] == (call("Punctuation"),):
                own[name]["punctuation"] = "m = 'end'"
            continue
        found = {PANES: panes, SESSION: session}[kind](draw)
        if found.window.name == "Calendar":
            found = session(draw)
        window = found.window.but(results=None, fires_when=None, then=None, fill=None, fill_for=None)
        own[name] = {"window": window, "event_time": "t", "watermark": draw(few(0, 4))}
        begin = found.begin
        if draw(st.integers(0, 5)) == 5:
            own[name] |= {"dedupe": "id", "dedupe_for": draw(few(1, 30))}
        if draw(st.integers(0, 3)) == 3:
            own[name] |= {"idle_after": draw(few(1, 10)), "when_idle": draw(st.sampled_from(("wait", "advance")))}
    options |= operator(draw, [one["window"] for one in own.values()])
    has_event_time = any("event_time" in one for one in own.values())
    follows = has_event_time and draw(st.integers(0, 1)) == 1
    return Declaration(PORTS, {"ports": own, **options}, begin, 1, follows)


JOINS = ("inner", "left", "right", "full", "semi", "anti")


def _sides(draw: DRAW, options: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Draw the ports of a join."""
    idle = {} if draw(st.integers(0, 3)) < 3 else {"idle_after": draw(few(1, 10)), "when_idle": "wait"}
    sides = {"a": {**own, "watermark": draw(few(0, 4))}, "b": {**own, "watermark": draw(few(0, 4)), **idle}}
    for name in ("order_by", "punctuation", "marks", "max_ahead"):
        options.pop(name, None)
    return {"ports": sides, "event_time": "t", **options}


@st.composite
def _join(draw: DRAW) -> Declaration:
    drawn = panes(draw)
    plain = (
        "early",
        "refire",
        "results",
        "fires_when",
        "then",
        "fill",
        "fill_for",
    )
    window = drawn.window.but(**dict.fromkeys(plain))
    if window.get("emit") == "on_update":
        window = window.but(emit=None)
    options = _sides(draw, stream(draw, keys=("k", "k", ["k", "j"])), {"window": window})
    join = {"how": draw(st.sampled_from(JOINS)), "on": draw(st.sampled_from((None, "s", ["s", "b"])))}
    options["join"] = {name: one for name, one in join.items() if one is not None}
    return Declaration(JOIN, options, drawn.begin, drawn.unit, draw(st.booleans()))


@st.composite
def _within(draw: DRAW) -> Declaration:
    before, after = draw(st.integers(-3, 8)), draw(st.integers(0, 8))
    options = _sides(draw, stream(draw, keys=("k", "k", ["k", "j"])), {})
    join = {
        "before": max(before, -after),
        "after": after,
        "how": draw(st.sampled_from(JOINS[:4])),
        "on": draw(st.sampled_from((None, "s"))),
        "discard_age": draw(st.sampled_from((None, 0, 5, 20))),
    }
    options["join_within"] = {name: one for name, one in join.items() if one is not None}
    return Declaration(WITHIN, options, draw(st.sampled_from(BEGINS)), 1, draw(st.booleans()))


OF_KIND = {
    PANES: _panes,
    SESSION: _sessions,
    BY_ROW: _by_row,
    ARRIVAL: _arrival,
    WINDOWS: _windows,
    PORTS: _ports,
    JOIN: _join,
    WITHIN: _within,
}


def arguments(declaration: Declaration) -> dict[str, Any]:
    """Return the arguments of `run`, made anew."""
    found: dict[str, Any] = made(declaration.options)
    return found
