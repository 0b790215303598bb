"""The laws: what must hold of every declaration and every history, without a model of any window.

Each takes the base play (everything in as few micro-batches as there can be) and plays the history once or twice more.
What the rules exempt is exempted here, with the section of docs/semantics.md that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from panekeeper.framework.testing.every_cut import _End, _Row
from panekeeper.framework.testing.script import Clock, Restart
from tests.laws.calls import Call, call
from tests.laws.declarations import ARRIVAL, PANES, SESSION, WINDOWS, Declaration
from tests.laws.histories import History
from tests.laws.options import DEPENDS_ON_PATH, changes
from tests.laws.playing import (
    Broken,
    Play,
    columns_of,
    cut,
    refused,
    report,
    require_same,
    shown,
    with_restarts,
)
from tests.laws.stored import require_forecasts, require_replays

Law = Callable[[Play, History], None]
NO_COLUMNS = frozenset[str]()


def depends_on_batches(declaration: Declaration) -> bool:
    """Whether results follow from where micro-batches end, as is declared."""
    return (
        declaration.any_window(emit=["on_update"])  # 6.7: a firing after each micro-batch
        or "order_by" in declaration.options  # 1.3: sorted within a micro-batch
        or declaration.follows  # 6.5: the watermark moves between micro-batches
    )


def base_of(declaration: Declaration, history: History) -> Play:
    """Return the play that others are compared with."""
    case = history.case(declaration)
    if depends_on_batches(declaration):
        case = cut(case, history.chance("base"), restarts=False)
    return Play(declaration, case)


def compares_partitions(declaration: Declaration) -> bool:
    """Whether a limit on partitions looks at all of them (docs/semantics.md section 4.1)."""
    limits = [one.get("partition_eviction") for one in declaration.all_windows]
    return any(isinstance(one, Call) and one.name != "PartitionAge" for one in limits)


# a. Neither micro-batches, nor restarts, nor key groups.


def same_however_it_is_cut(base: Play, history: History) -> None:
    """The same rows, to the bit, wherever micro-batches end and the job restarts, in any number of key groups."""
    declaration, chance = base.declaration, history.chance("cut")
    counts_idle_time = any("idle_after" in one for one in _streams(declaration))
    if not depends_on_batches(declaration):
        case = cut(base.case, chance, always=chance.random() < 0.2)
    elif counts_idle_time:  # 14: it is counted from the start on
        case = base.case
    else:
        case = with_restarts(base.case, chance)
    partitioned = declaration.options.get("partition_by") is not None
    groups = chance.choice((None, 2, 3)) if partitioned and not compares_partitions(declaration) else None
    other = Play(declaration.but(key_groups=groups), case)
    law = "the same rows however it is cut, wherever it restarts, in any number of key groups"
    require_same(law, base, other, base.by_place(), other.by_place())
    require_same(law, base, other, {"quarantine": refused(base.results)}, {"quarantine": refused(other.results)})
    if base.results.counts != other.results.counts:
        what = f"counts:\n    one  {base.results.counts}\n    two  {other.results.counts}"
        raise Broken(report(law, what, base, other))


def _streams(declaration: Declaration) -> list[Mapping[str, Any]]:
    """Return the options of each stream."""
    return [declaration.options, *declaration.options.get("ports", {}).values()]


# b. Neither other partitions nor ticks.


def same_without_other_partitions(base: Play, history: History) -> None:
    """A partition has the same results, whatever rows others have."""
    declaration = base.declaration
    rows = [one.row for one in base.case.items if isinstance(one, _Row)]
    keys = declaration.options.get("partition_by")
    if not rows or keys is None or compares_partitions(declaration):
        return
    names = [keys] if isinstance(keys, str) else list(keys)
    own = history.chance("key").choice(rows)
    others = [row for row in rows if not _is_same(row, own, names)]
    if not others:
        return
    moves_all = declaration.follows or "arrival_time" in declaration.options  # 6.5, 1.2: rows move what is of all
    moves_all |= any(one.keys() & {"punctuation", "marks"} for one in _streams(declaration))  # 2.3: and so do marks
    items, ends = list[Any](), list[_End]()
    for one, end in zip(base.case.items, base.case.ends, strict=True):
        if isinstance(one, _Row) and not _is_same(one.row, own, names):
            if not moves_all:
                if ends:  # the micro-batch ends there all the same
                    ends[-1] = max(ends[-1], end)
                continue
            same = {name: others[0][name] for name in names if name in others[0]}
            items.append(_Row(one.port, {**{n: v for n, v in one.row.items() if n not in names}, **same}))
        else:
            items.append(one)
        ends.append(end)
    case = replace(base.case, items=tuple(items), ends=tuple(ends))
    if moves_all and "idle_after" not in declaration.options and case == base.case:
        return
    if _outages(case.items) != _outages(base.case.items):  # 7.5: no row is left between the time and the end of the run
        return
    if _begins_by_clock(case.items) != _begins_by_clock(base.case.items):  # 8.1: the first instant makes a window ready
        return
    other = Play(declaration, case)
    of_key = _places_of(base, own, names)  # by its columns, which come first
    left, right = ({place: rows for place, rows in one.by_place().items() if of_key(place)} for one in (base, other))
    require_same("a partition has the same results without the others", base, other, left, right)


def _outages(items: Iterable[Any]) -> int:
    """Return how often time passes with no job running."""
    return sum(isinstance(one, Clock) and isinstance(after, Restart) for one, after in pairwise(items))


def _begins_by_clock(items: Iterable[Any]) -> bool:
    """Return whether time passes before the first micro-batch does anything else."""
    return isinstance(next((one for one in items if not isinstance(one, Restart)), None), Clock)


def _is_same(row: Mapping[str, Any], other: Mapping[str, Any], names: list[str]) -> bool:
    return _key(row, names) == _key(other, names)


def _key(row: Mapping[str, Any], names: list[str]) -> str:
    values = [row.get(name) for name in names]
    return repr([one + 0.0 if isinstance(one, float) else one for one in values])  # 10.1: 0.0 and -0.0 are one key


def _places_of(play: Play, row: Mapping[str, Any], names: list[str]) -> Callable[[str], bool]:
    named = []
    for column, name in zip(play.key_names, names, strict=True):
        value = row.get(name)
        named.append(f"{column}={shown(value)}")
    key = ", ".join(named)
    return lambda place: f", {key}," in f", {place},"


LONGEST_TICK = 60_000_000
"""In microseconds; more is an outage (7.5)."""


def same_with_more_ticks(base: Play, history: History) -> None:
    """The wall clock may come in any number of ticks, also of those that another partition causes."""
    declaration, chance = base.declaration, history.chance("ticks")
    if any("idle_after" in one for one in _streams(declaration)):  # 14: the watermark goes on with each tick
        return
    items, ends, found, is_ready = [], [], False, False
    for number, (one, end) in enumerate(zip(base.case.items, base.case.ends, strict=True)):
        following = base.case.items[number + 1 : number + 2]
        is_outage = bool(following) and isinstance(following[0], Restart)
        was_ready, is_ready = is_ready, is_ready or not isinstance(one, Restart)  # 2.4: with the first micro-batch
        if isinstance(one, Clock) and was_ready and not is_outage and 4 <= one.us <= LONGEST_TICK:
            parts = sorted(chance.sample(range(1, 8), chance.randint(1, 3)))
            cuts = [0, *(one.us * part // 8 for part in parts), one.us]
            for first, last in pairwise(cuts):
                items.append(Clock((last - first) / 1_000_000))
                ends.append(_End.NONE)
            ends[-1], found = end, True
        else:
            items.append(one)
            ends.append(end)
    if found:
        other = Play(declaration, replace(base.case, items=tuple(items), ends=tuple(ends)))
        require_same("the same rows with more ticks", base, other, base.by_place(), other.by_place())


# c. Aggregates and operators see the same.

MOMENTS = ("agg.stddev", "agg.variance", "agg.skewness", "agg.covariance", "agg.corr")
SUMS = ("agg.sum", "agg.mean", "agg.weighted_mean")
"""Of floats, neither is exact: so the last bits tell whether a window keeps its rows, or in what order it adds (11)."""


def aggregates_see_what_an_operator_sees(base: Play, _: History) -> None:
    """The rows of each firing are those of the event, and each aggregate is of these rows."""
    declaration = base.declaration
    window, own = declaration.window, declaration.options.get("aggregates")
    if window is None or own is None or "group_within" in declaration.options:
        return
    if window.get("results") == "discarding" or window.get("fires_when"):  # which need no rows
        return
    with_rows = Play(declaration.but(aggregates={**own, "rows": call("agg.collect", "n")}), base.case)
    inexact = {name for name, one in own.items() if one.name in MOMENTS or (one.name in SUMS and "w" in one.args)}
    left_out = frozenset({"rows", *inexact, *columns_of(declaration, DEPENDS_ON_PATH)})
    require_same(
        "an aggregate that is added changes no other one",
        base,
        with_rows,
        base.by_place(without=left_out),
        with_rows.by_place(without=left_out),
    )
    _require_values(with_rows)
    if declaration.kind not in (PANES, SESSION, ARRIVAL) or window.get("fill"):
        return
    if window.get("stream") == "entered":  # each is an INSERTION, of one row or of several (1.3)
        return
    plain = {name: one for name, one in declaration.options.items() if name != "aggregates"}
    stripped = replace(declaration, options={**plain, "window": window.but(results=None)})
    by_operator = Play(
        stripped.but(operator=call("Firings"), output="event string, rows array<bigint>, detail string"), base.case
    )
    columns = [*with_rows.key_names, "pane_start", "pane_end", "session_start", "refinement", "is_final", "reason"]
    columns += ["fired_at", "rows"]
    left, right = (_shown(one, columns, window) for one in (with_rows, by_operator))
    require_same("aggregates see the firings that an operator sees", with_rows, by_operator, left, right)


def _shown(play: Play, columns: list[str], window: Call) -> dict[str, list[str]]:
    """Return the rows of each firing that is both an event and a result."""
    found = dict[str, list[str]]()
    leaves = window.name == "Tumbling" or window.get("stream") == "left"
    wanted = "eviction" if leaves else "trigger"
    for row in play.results:
        if row.get("op") == -1 or row.get("event", wanted) != wanted:
            continue
        rows = row["rows"]
        if not rows:  # 1.6: which of these make rows differs by window
            continue
        place = ", ".join(f"{name}={row.get(name)!r}" for name in play.key_names) or "the log"
        shown = [f"{name}={row.get(name)!r}" for name in columns if name in row]
        found.setdefault(place, []).append(" ".join(shown))
    return {place: sorted(rows) for place, rows in found.items()}


def _require_values(play: Play) -> None:
    """Raise `Broken` unless simple aggregates are those of the rows that are collected beside them."""
    own, rows = play.declaration.options["aggregates"], play.rows()
    for result in play.results:
        numbers = result["rows"]
        if result.get("op") == -1 or result.get("reason") == "FILLED" or numbers is None:
            continue
        of_rows = [rows[number] for number in numbers]
        for name, one in own.items():
            if (wanted := _in_python(one, of_rows)) is not None and result[name] != wanted[0]:
                what = f"{name}={one} is {result[name]!r}, and of the rows {numbers} {wanted[0]!r} in {result}"
                raise Broken(report("an aggregate is of the rows of its firing", what, play))


def _in_python(one: Call, rows: list[Mapping[str, Any]]) -> tuple[Any] | None:  # noqa: PLR0911 -- one a kind
    """Return what a simple aggregate of these rows is; None for others."""
    if one.get("where") is not None:
        return None
    values = [row[one.args[0]] for row in rows if one.args and isinstance(one.args[0], str) and one.args[0] in row]
    if one.name == "agg.count":
        return (len(values) if one.args else len(rows),)
    if one.args[:1] == ("v",) and one.name in ("agg.sum", "agg.max"):
        total = sum(values)
        if one.name == "agg.sum":
            return (total if values and abs(total) < 2**63 else None,)
        return (max(values, default=None),)
    if one.name in ("agg.first", "agg.last") and one.args[0] in ("v", "s"):
        return ((values[0] if one.name == "agg.first" else values[-1]) if values else None,)
    if one.name == "agg.collect" and one.args[0] in ("v", "s"):
        return (values,)
    return None


# d. Windows beside each other, and options that cannot act.


def each_of_several_windows_is_as_it_is_alone(base: Play, history: History) -> None:
    """One of several windows has the results of a job with this window alone (docs/semantics.md section 19)."""
    declaration = base.declaration
    if declaration.kind != WINDOWS:
        return
    if "dedupe" in declaration.options:  # 17, 19: a row counts if it is late for no window, so ids differ
        return
    name = history.chance("window").choice(sorted(declaration.options["windows"]))
    of_window = declaration.options["aggregates"][name]
    groups = {one: value for one, value in of_window.items() if not isinstance(value, Call)}
    own = {one: value for one, value in of_window.items() if one not in groups}
    rest = {one: value for one, value in declaration.options.items() if one not in ("windows", "aggregates")}
    window = declaration.options["windows"][name]
    alone = Play(replace(declaration, options={"window": window, "aggregates": own, **groups, **rest}), base.case)
    left = {
        place.removeprefix(f"window {name}, ").replace(f"window {name}", "the log"): rows
        for place, rows in base.by_place().items()
        if place.startswith(f"window {name}")
    }
    require_same("a window is among others as it is alone", base, alone, left, alone.by_place())


def without_what_cannot_act(base: Play, history: History) -> None:
    """An option that cannot act in this history changes nothing."""
    declaration = base.declaration
    found = [*changes(declaration, base.case)]
    if not found:
        return
    change = history.chance("option").choice(found)
    other = Play(change.declaration, base.case if change.case is None else change.case)
    left = base if change.base is None else Play(change.base, base.case if change.case is None else change.case)
    ours, theirs = (change.shows(play, change.without) for play in (left, other))
    require_same(change.name, left, other, ours, theirs)


# e. No row is lost.


def every_row_is_somewhere(base: Play, _: History) -> None:
    """Rows in = the sum of the counts, and each refused row is in the quarantine with all its columns."""
    counts, rows = base.results.counts, base.rows()
    marks = _marks(base)
    fates = ("admitted", "refined_late", "dropped_late", "outside", "quarantined", "repeated")
    total = sum(counts[name] for name in fates)
    if counts["rows_in"] != total or total != len(rows) - len(marks):
        raise Broken(report("rows in = the sum of the counts", f"{len(rows)} rows, {len(marks)} marks: {counts}", base))
    if counts["firings"] != len(base.results):
        raise Broken(report("firings are the rows of the log", f"{len(base.results)} rows: {counts}", base))
    of_rows = [one for one in base.results.quarantine if "n" in one["row"]]
    late = [one for one in of_rows if one["reason"] == "LATE"]
    if base.declaration.kind != WINDOWS and len(late) != counts["dropped_late"]:
        raise Broken(report("each late row is in the quarantine", f"{len(late)} of them: {counts}", base))
    intake = [one for one in of_rows if one["reason"] not in ("LATE", "USER_ERROR", "NO_SESSION")]
    if len(intake) != counts["quarantined"]:
        raise Broken(report("each bad row is in the quarantine", f"{len(intake)} of them: {counts}", base))
    for one in of_rows:
        came, shown = rows[one["row"]["n"]], one["row"]
        missing = {name for name in came if name not in shown or shown[name] is None}
        nulls = {name for name in shown if name not in came and shown[name] is not None}
        same = all(came[name] == shown.get(name) for name in ("k", "v", "s", "m", "id") if name in came)
        if missing or nulls or not same:
            what = f"row {came} is {shown} there; missing {sorted(missing)}, more {sorted(nulls)}"
            raise Broken(report("a refused row has all its columns", what, base))


def _marks(play: Play) -> set[int]:
    """Return the rows that are marks themselves."""
    if "marks" not in play.declaration.options:
        return set()
    return {number for number, row in play.rows().items() if row.get("m") == "end"}


# f. What is stored tells what happens next; what is run again is what it was.


def what_is_stored_tells_the_rest(base: Play, history: History) -> None:
    """A batch that is run again is what it was, and what `panes` says before a watermark is what it does."""
    require_replays(base, history.chance("replay"))
    require_forecasts(base)


# g. Columns.


def columns_come_as_they_are_declared(base: Play, _: History) -> None:
    """The partition columns come first, and results side by side, each in the order of their declaration."""
    options = base.declaration.options
    keys = _as_list(options.get("partition_by"))
    for window, rows in (base.results.windows or {"": base.results}).items():
        own = options.get("aggregates", {}).get(window, options.get("aggregates", {}))
        groups = _as_list(own.get("group_within", options.get("group_within")))
        wanted = [*groups, *(name for name, one in own.items() if isinstance(one, Call)), *(["rank"] if groups else [])]
        if "operator" in options:
            wanted = [column.split()[0] for column in options["output"].split(", ")]
        for names in map(list, rows[:1]):
            begin = names.index(wanted[0]) if wanted else 0
            if names[: len(keys)] != keys or names[begin : begin + len(wanted)] != wanted:
                what = f"{', '.join(names)}, where {', '.join([*keys, *wanted])} are declared"
                raise Broken(report("columns come in the order of their declaration", what, base))


def _as_list(names: Any) -> list[str]:
    return [] if names is None else [names] if isinstance(names, str) else list(names)


LAWS: Mapping[str, Law] = {
    "cuts": same_however_it_is_cut,
    "partitions": same_without_other_partitions,
    "ticks": same_with_more_ticks,
    "operators": aggregates_see_what_an_operator_sees,
    "windows": each_of_several_windows_is_as_it_is_alone,
    "options": without_what_cannot_act,
    "rows": every_row_is_somewhere,
    "columns": columns_come_as_they_are_declared,
    "stored": what_is_stored_tells_the_rest,
}


def applying(declaration: Declaration, history: History) -> list[str]:
    """Return the laws that may say something of such a declaration and history."""
    found = ["cuts", "cuts", "stored", "rows"]
    partitioned = declaration.options.get("partition_by") is not None
    found += ["partitions"] if partitioned and not compares_partitions(declaration) else []
    found += ["ticks"] if any(WATERMARKS_BELOW < one.kind <= CLOCKS_BELOW for one in history.items) else []
    found += ["operators", "options"] if "aggregates" in declaration.options and declaration.window else []
    found += ["windows"] if declaration.kind == WINDOWS else []
    return found


WATERMARKS_BELOW, CLOCKS_BELOW = 12, 14
