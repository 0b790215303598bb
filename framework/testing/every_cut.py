"""Are results the same wherever micro-batches end, and wherever a job is started again? Asked of a user's own window.

Both assertions play what happens in many ways, in memory. What differs is made as small as it can be, and shown as two
calls of `run`: fewer rows first, then fewer ends of micro-batches.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from panekeeper.framework.declarations.errors import DeclarationError, user_traceback
from panekeeper.framework.testing.run import declared_job, require_dict, with_script
from panekeeper.framework.testing.script import Clock, Flush, Restart, Step, Watermark
from panekeeper.framework.testing.tried_merge import BrokenMerge, tried

if TYPE_CHECKING:
    from panekeeper.framework.core.job_spec import JobSpec
    from panekeeper.framework.testing.results import Results
    from panekeeper.framework.testing.scripted_job import ScriptedJob


class _End(IntEnum):
    """What is after an item: nothing, the end of its micro-batch, or that and a restart."""

    NONE = 0
    CUT = 1
    RESTART = 2


_FIRST, _LAST = Watermark("0001-01-01"), Watermark("9999-12-31")
"""Completes no pane; completes all. Without either the watermark would go by the micro-batches."""
_BY_BATCH = {"batch", "firing"}
"""Columns that say where batches ended (docs/semantics.md section 10.1)."""
_PLACE = ("port", "pane_start", "pane_end", "session_start")
_MOST_RUNS = 400
"""So often a difference is played while it is made smaller."""


def assert_same_for_every_cut(
    declaration: Mapping[str, Any],
    rows: Sequence[Any],
    *,
    tries: int = 10,
    seed: int = 0,
    allow_errors: bool = False,
    exact_merge: bool = True,
) -> None:
    """Assert that results do not depend on where micro-batches end, nor on restarts between them.

    What happens is played in one micro-batch, then with one for each row, with a restart after each row, and in `tries`
    random ways. The rows of the log must be the same for each partition and pane, in their order,
    and so must the quarantine. A `merge` or `remove` of an aggregate of yours is tried on the rows of each firing, in
    many splits: it must say what `add` says, also if no pane of these needs it.

    Args:
        declaration: the arguments of `run`, without a script.
        rows: what happens, in order: rows as dicts (with ports, dicts of lists of rows), `Clock(...)`,
            `Watermark(...)`, or lists of rows; where these end says nothing. A watermark that completes all panes
            follows in the end, unless that is `Flush()`. Without a `Watermark` one follows the rows, at the same places
            in every way, as far as it makes no row late: to the least event time of those still to come.
        tries: number of random ways.
        seed: makes them; the same seed makes the same ones.
        allow_errors: whether a function of yours may raise. It must raise for the same then, however the rows are cut.
        exact_merge: False for an aggregate that estimates: what it merges need not be what it adds.

    Raises:
        AssertionError: results differ: the message has the columns that do, the likeliest cause, and two calls of `run`
            that show it. Or a function of yours raised, or its `merge` is not what its `add` says.
        DeclarationError: as `run`.

    >>> from panekeeper import Count, Tumbling, agg
    >>> declaration = {"window": Tumbling(Count(2)), "aggregates": {"n": agg.sum("v")}, "schema": "v long"}
    >>> assert_same_for_every_cut(declaration, [{"v": 1}, {"v": 2}, {"v": 3}])
    """
    declared = _declared(declaration)
    case, chance = _read(declared, rows), random.Random(seed)  # noqa: S311 -- makes cases, not secrets
    gaps = len(case.items)
    ways = [(_End.CUT,) * gaps, (_End.RESTART,) * gaps]
    for _ in range(tries):
        many = chance.random() / 2
        ways.append(tuple(chance.choice(tuple(_End)[1:]) if chance.random() < many else _End.NONE for _ in range(gaps)))

    def whole(case: _Case) -> _Case:
        return replace(case, ends=(_End.NONE,) * len(case.items))

    __tracebackhide__ = True
    plays = _Plays(declared, allow_errors=allow_errors)
    plays.require_no_error(whole(case))
    plays.require_same((replace(case, ends=way) for way in dict.fromkeys(ways)), whole, ("whole", "cut"))
    if exact_merge:
        _require_possible_merge(declaration, whole(case))


def assert_survives_restarts(
    declaration: Mapping[str, Any],
    script: Sequence[Any],
    *,
    tries: int = 10,
    seed: int = 0,
    allow_errors: bool = False,
) -> None:
    """Assert that results do not change if the job is started again between micro-batches.

    The script is played as it is, then with a restart after each micro-batch, and after some in `tries` random ways.
    Micro-batches end where the script says, so this is for what depends on that, too, such as `emit="on_update"`.

    Args:
        declaration: the arguments of `run`, without a script.
        script: what happens, as `run` takes it; a row that is in no list is a micro-batch of its own. The watermark
            is as in `assert_same_for_every_cut`.
        tries: number of random ways.
        seed: makes them; the same seed makes the same ones.
        allow_errors: whether a function of yours may raise.

    Raises:
        AssertionError: results differ, or a function of yours raised, as of `assert_same_for_every_cut`.
        DeclarationError: as `run`.
    """
    declared = _declared(declaration)
    case, chance = _read(declared, script), random.Random(seed)  # noqa: S311 -- makes cases, not secrets
    ways = [
        tuple(_End.RESTART if end and chance.random() < many else end for end in case.ends)
        for many in (1.0, *(tries * [0.5]))
    ]

    def unbroken(case: _Case) -> _Case:
        return replace(case, ends=tuple(min(end, _End.CUT) for end in case.ends))

    __tracebackhide__ = True
    plays = _Plays(declared, allow_errors=allow_errors)
    plays.require_no_error(unbroken(case))
    plays.require_same((replace(case, ends=way) for way in dict.fromkeys(ways)), unbroken, ("unbroken", "broken"))


class _Row(NamedTuple):
    """A row of one port."""

    port: int
    row: Any


@dataclass(frozen=True, kw_only=True)
class _Case:
    """What happens, item by item, and what is after each.

    Attributes:
        items: rows, `Clock`, `Watermark`, `Restart` and `Flush`.
        ends: what is after each.
        ports: the names of the ports; None for the only one.
    """

    items: tuple[Any, ...]
    ends: tuple[_End, ...]
    ports: tuple[str | None, ...]

    def script(self) -> list[Any]:
        """Return it as `run` takes it. Within a micro-batch the rows of the first port come first."""
        script, waiting = list[Any](), list[Any]()
        for number, (item, end) in enumerate(zip(self.items, self.ends, strict=True)):
            following = self.items[number + 1 : number + 2]
            is_before_restart = bool(following) and isinstance(following[0], Restart)
            if waiting and self._begins(item, waiting[-1], is_before_restart):
                script.append(self._batch(waiting))
                waiting = []
            waiting.append(item)
            if end or is_before_restart:
                script.append(self._batch(waiting))
                waiting = []
            if end is _End.RESTART and following and not is_before_restart:
                if isinstance(script[-1], Clock):  # the time is no outage
                    script.append([] if self.ports == (None,) else {})
                script.append(Restart())
        return [*script, self._batch(waiting)] if waiting else script

    def _begins(self, item: Any, before: Any, is_before_restart: bool) -> bool:  # noqa: FBT001
        """Return whether an item begins a micro-batch wherever those before it end."""
        if isinstance(item, Restart | Flush) or isinstance(before, Restart):
            return True
        if isinstance(item, Clock) and is_before_restart:  # an outage
            return True
        if self.ports == (None,):
            return False
        return not isinstance(item, _Row) or not isinstance(before, _Row) or item.port < before.port

    def _batch(self, items: list[Any]) -> Any:
        """Return a micro-batch as `run` takes it."""
        if not isinstance(items[0], _Row) and len(items) == 1:
            return items[0]
        if self.ports == (None,):
            return [item.row if isinstance(item, _Row) else item for item in items]
        named = {name: [item.row for item in items if item.port == port] for port, name in enumerate(self.ports)}
        return {name: rows for name, rows in named.items() if rows}

    def without(self, first: int, last: int) -> _Case:
        """Return it without these items."""
        return replace(self, items=self.items[:first] + self.items[last:], ends=self.ends[:first] + self.ends[last:])

    def with_end(self, number: int, end: _End) -> _Case:
        """Return it with another end after an item."""
        return replace(self, ends=(*self.ends[:number], end, *self.ends[number + 1 :]))


def _declared(declaration: Mapping[str, Any]) -> ScriptedJob:
    require_dict("the declaration", declaration, '{"window": TimeInterval(60), "aggregates": {"n": agg.count()}, ...}')
    for name in ("script", "engine", "spark"):
        if name in declaration:
            raise DeclarationError(f"the declaration has {name}; give the arguments of run() but for that")
    return declared_job(**declaration)


def _read(declared: ScriptedJob, script: Sequence[Any]) -> _Case:
    """Return what a script has, row by row, with the ends of its micro-batches. Raises as `run` for what is none."""
    names = tuple(port.name for port in declared.ports)
    is_one = names == (None,)
    batches: list[Any] = [[item] if is_one and isinstance(item, Mapping) else item for item in script]
    is_flushed = bool(batches) and isinstance(batches[-1], Flush)
    has_panes = any(port.has_panes for port in declared.ports)
    follows_rows = not with_script(declared, batches).has_watermarks and has_panes
    if follows_rows:
        batches.insert(0, _FIRST)
    if has_panes and not is_flushed:
        batches.append(_LAST)
    items, ends = list[Any](), list[_End]()
    for item in batches:
        if isinstance(item, Step):
            batch_items: list[Any] = [item]
        elif is_one:
            batch_items = [
                row_or_step if isinstance(row_or_step, Clock | Watermark) else _Row(0, row_or_step)
                for row_or_step in item
            ]
        else:
            batch_items = [_Row(port, row) for port, name in enumerate(names) for row in item.get(name, [])]
        items += batch_items
        ends += [*[_End.NONE] * (len(batch_items) - 1), _End.CUT] if batch_items else []
    case = _Case(items=tuple(items), ends=tuple(ends), ports=names)
    return _following_rows(case, declared) if follows_rows else case


def _following_rows(case: _Case, declared: ScriptedJob) -> _Case:
    """Return it with a watermark wherever one may move that makes no row late: to the least event time still to come.

    These are items as the user's are, so they are at the same places wherever micro-batches end. Of several ports they
    are only where a micro-batch begins in any case, as a watermark is one of its own there.
    """
    least_to_come, least = list[Watermark | None](), None
    for item in reversed(case.items):
        least_to_come.append(least)
        if (time := _event_time(item, declared)) is not None and (least is None or time.us < least.us):
            least = time
    items, ends, reached = list[Any](), list[_End](), _FIRST
    followed = zip(case.items, case.ends, reversed(least_to_come), [*case.items[1:], None], strict=True)
    for item, end, mark, after in followed:
        items.append(item)
        ends.append(end)
        if not isinstance(item, _Row) or mark is None or mark.us <= reached.us:
            continue
        if len(case.ports) == 1 or not isinstance(after, _Row) or after.port < item.port:
            reached = mark
            items.append(mark)
            ends[-1:] = [_End.NONE, end]
    return replace(case, items=tuple(items), ends=tuple(ends))


def _event_time(item: Any, declared: ScriptedJob) -> Watermark | None:
    """Return the watermark that a row allows; None of what is no row, or has no event time that a pane may have."""
    if not isinstance(item, _Row) or not (port := declared.ports[item.port]).has_panes:
        return None
    name = port.options["event_time"]
    is_column = isinstance(name, str) and name in port.arrow_columns.names
    if not is_column or not pa.types.is_timestamp(port.arrow_columns.field(name).type):
        return None  # the declaration refuses it
    value = item.row.get(name)
    time = None if value is None else Watermark(value)
    return time if time is not None and _FIRST.us <= time.us <= _LAST.us else None


def _require_possible_merge(declaration: Mapping[str, Any], case: _Case) -> None:
    """Raise `AssertionError` if a user's aggregate merges, or removes, to something else than it adds."""
    __tracebackhide__ = True
    from panekeeper.framework.testing.run_in_memory import run_in_memory

    if aggregates := tried(declaration.get("aggregates") or {}):
        job = _declared(dict(declaration) | {"aggregates": aggregates})
        try:
            with suppress(Exception):  # that these rows raise was seen before
                run_in_memory(with_script(job, case.script()))
        except BrokenMerge as error:
            raise AssertionError(str(error)) from None


_Shown = Mapping[str, str] | str
"""What a row shows by its columns; or a text in its place, of what was raised."""


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What came of a case.

    Attributes:
        rows: those of the log by their place, and those of the quarantine.
        results: what `run` returns; None if it raised.
        error: what it raised.
    """

    rows: Mapping[str, list[_Shown]]
    results: Results | None = None
    error: Exception | None = None


class _Plays:
    """Plays cases of one job, and compares what comes of them."""

    def __init__(self, declared: ScriptedJob, *, allow_errors: bool) -> None:
        from panekeeper.framework.testing.scripted_stream import ScriptedStream

        self._declared, self._allow_errors = declared, allow_errors
        streams = [ScriptedStream(port.columns) for port in declared.ports]
        self._spec = declared.computation(streams)._pipeline.spec  # noqa: SLF001 -- the kit is part of the framework
        self._known: dict[str, _Outcome] = {}

    def require_no_error(self, case: _Case) -> None:
        """Raise `AssertionError` if a function of the user's raises, unless that is allowed."""
        __tracebackhide__ = True
        outcome = self._outcome(case)
        if self._allow_errors:
            return
        if outcome.error is not None:
            raise AssertionError(
                "a function of yours raised, or a row cannot be computed; if the test expects that, give "
                f"allow_errors=True. What was raised: {user_traceback(outcome.error)}"
            ) from None
        if outcome.results is not None:
            outcome.results.require_no_user_error()

    def require_same(self, cases: Iterator[_Case], other: Callable[[_Case], _Case], names: tuple[str, str]) -> None:
        """Raise `AssertionError` for the first case whose results are not those of the other way to play it."""
        __tracebackhide__ = True  # pytest shows the line of the user's test

        def difference(case: _Case) -> str | None:
            return _difference(self._outcome(other(case)).rows, self._play(case).rows, names)

        for case in cases:
            if difference(case) is not None:
                small = _smallest(case, lambda candidate: difference(candidate) is not None)
                difference_text, cause = difference(small) or "", self._cause(small)
                raise AssertionError(_message(other(small), small, difference_text, cause, names))

    def _cause(self, case: _Case) -> str:
        from panekeeper.framework.testing.causes import likeliest_cause

        first_outcome, second_outcome = self._play(case), self._play(case)
        if first_outcome.error is not None:
            return ""  # what it says is the cause
        job = with_script(self._declared, case.script())
        return likeliest_cause(job, lambda: _difference(first_outcome.rows, second_outcome.rows, ("", "")) is None)

    def _outcome(self, case: _Case) -> _Outcome:
        """Return what comes of a case, played once."""
        text = repr(case)
        if text not in self._known:
            self._known[text] = self._play(case)
        return self._known[text]

    def _play(self, case: _Case) -> _Outcome:
        from panekeeper.framework.testing.run_in_memory import run_in_memory

        try:
            results = run_in_memory(with_script(self._declared, case.script()))
        except DeclarationError:
            raise
        except Exception as error:  # noqa: BLE001 -- of the user's code: an outcome as any other
            return _Outcome(rows={"an error": [f"{type(error).__name__}: {error}"]}, error=error)
        return _Outcome(rows=_rows(results, self._spec), results=results)


def _rows(results: Results, spec: JobSpec) -> dict[str, list[_Shown]]:
    """Return the rows of the log by their place, and those of the quarantine; values as text, so that NaN is equal."""
    rows_by_place = dict[str, list[_Shown]]()
    for window, rows in (results.windows or {"": results}).items():
        of = [f"window {window}"] if window else []
        for row in rows:
            place = [name for name in (*spec.keys.names, *_PLACE) if name in row]
            shown = {name: _text(value) for name, value in row.items() if name not in {*_BY_BATCH, *place}}
            named = (f"{name}={_text(row[name])}" for name in place)
            rows_by_place.setdefault(", ".join([*of, *named]) or "the log", []).append(shown)
    if spec.join is not None:  # pairs of one time are in no order
        rows_by_place = {place: sorted(rows, key=repr) for place, rows in rows_by_place.items()}
    refused: list[_Shown] = [
        {name: _text(row[name]) for name in ("port", "window", "reason", "event_time", "row") if name in row}
        for row in results.quarantine
    ]
    return rows_by_place | ({"the quarantine": sorted(refused, key=repr)} if refused else {})


def _text(value: Any) -> str:
    return value.isoformat(" ") if isinstance(value, datetime) else repr(value)


def _difference(
    first_rows: Mapping[str, list[_Shown]], second_rows: Mapping[str, list[_Shown]], names: tuple[str, str]
) -> str | None:
    """Return the first difference in words, with the columns that differ; None if there is none."""
    for place in dict.fromkeys((*first_rows, *second_rows)):
        for first, second in zip_longest(first_rows.get(place, []), second_rows.get(place, [])):
            if first != second:
                width = max(map(len, names))
                shown = _shown(first, second), _shown(second, first)
                lines = (f"    {name:<{width}}  {row}" for name, row in zip(names, shown, strict=True))
                return "\n".join([f"{place}:", *lines])
    return None


def _shown(row: _Shown | None, other: _Shown | None) -> str:
    """Return the columns of a row in which another one differs."""
    if row is None or isinstance(row, str):
        return row or "no row"
    known = other if isinstance(other, Mapping) else {}
    return ", ".join(f"{name}={value}" for name, value in row.items() if known.get(name) != value)


def _smallest(case: _Case, differs: Callable[[_Case], bool]) -> _Case:
    """Return a case that differs still, from which no item and no end can be left out; or the best after many runs."""
    runs = 0

    def is_smaller(candidate: _Case) -> bool:
        nonlocal runs
        runs += 1
        keeps_time = any(isinstance(item, Watermark) for item in candidate.items) or not any(
            isinstance(item, Watermark) for item in case.items
        )  # else the watermark would follow the rows, and so the micro-batches
        return keeps_time and runs <= _MOST_RUNS and differs(candidate)

    size = len(case.items) // 2
    while size:
        last = len(case.items)
        while last > 0:
            fewer = case.without(max(0, last - size), last)
            if is_smaller(fewer):
                case = fewer
            last -= size
        size //= 2
    for number, old_end in enumerate(case.ends):
        for end in tuple(_End)[:old_end]:
            if is_smaller(case.with_end(number, end)):
                case = case.with_end(number, end)
                break
    return case


def _message(other_case: _Case, small_case: _Case, difference: str, cause: str, names: tuple[str, str]) -> str:
    calls = "\n".join(_call(name, case) for name, case in zip(names, (other_case, small_case), strict=True))
    imports = [f"import {name}" for name in ("datetime", "decimal") if f"{name}." in calls]
    imports += ["from decimal import Decimal"] if "Decimal(" in calls else []
    used = [name for name in ("Clock", "Flush", "Restart", "Watermark") if f"{name}(" in calls]
    imports.append(f"from panekeeper.testing import {', '.join([*used, 'run'])}")
    what = "where micro-batches end" if names[0] == "whole" else "whether the job was started again"
    program = "\n".join(f"    {line}" for line in "\n".join([*imports, "", calls]).splitlines())
    why = f"\nLikeliest cause: {cause}." if cause else ""
    return (
        f"results depend on {what}; the first difference is in {difference}{why}\nThe least that shows it:\n\n{program}"
    )


def _call(name: str, case: _Case) -> str:
    """Return a call of `run`, as a program has it."""
    items = "".join(f"    {item!r},\n" for item in case.script())
    return f"{name} = run(**declaration, script=[\n{items}])"
