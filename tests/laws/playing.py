"""How a history is played through a declaration, and what comes of it, so that two plays can be compared to the bit."""

from __future__ import annotations

import random
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

from panekeeper.framework.testing.every_cut import _Case, _End, _Row
from panekeeper.framework.testing.memory_job import MemoryBatch, MemoryJob
from panekeeper.framework.testing.results import Results
from panekeeper.framework.testing.run import declared_job, with_script
from panekeeper.framework.testing.run_in_memory import JobOfScript
from panekeeper.state.store import MemoryStore
from tests.laws.calls import Call, names, source
from tests.laws.declarations import COLUMNS, Declaration, arguments, schema_of
from tests.laws.user_code import __all__ as users

BY_BATCH = frozenset({"batch", "firing"})
"""Columns that say where batches ended, or which key group it was (docs/semantics.md section 10.1)."""
PLACE = ("port", "pane_start", "pane_end", "session_start")
ROUNDS_ZERO = ("agg.min", "agg.max", "agg.arg_min", "agg.arg_max")
"""Either of 0.0 and -0.0 may be their result (docs/semantics.md section 11)."""


class Broken(AssertionError):
    """A law does not hold."""


@dataclass(frozen=True, eq=False)
class Play:
    """A history that is played in one way.

    Attributes:
        declaration: what is declared.
        case: what happens, with the ends of micro-batches.
    """

    declaration: Declaration
    case: _Case

    @cached_property
    def job(self) -> JobOfScript:
        """The job before its first micro-batch."""
        return JobOfScript(with_script(declared_job(**arguments(self.declaration)), self.case.script()))

    @cached_property
    def batches(self) -> list[MemoryBatch]:
        """What its micro-batches do. Raises what a job would raise."""
        PLAYED.count += 1
        found = []
        self.stored.append(stored(self.job))
        for batch in self.job.batches():
            found.append(batch)
            self.stored.append(stored(self.job))
        return found

    @cached_property
    def stored(self) -> list[list[MemoryStore]]:
        """What each key group has stored before each micro-batch, and after the last one."""
        return []

    @cached_property
    def results(self) -> Results:
        """The rows of the log and the quarantine."""
        found = Results(self.job.spec.windows)
        for batch in self.batches:
            self.job.add(found, batch)
        return found

    def by_place(self, *, without: frozenset[str] = frozenset()) -> dict[str, list[str]]:
        """Return the rows of the log by partition, window and pane, in their order, without some columns."""
        return placed(self.declaration, self.results, self.key_names, without)

    @property
    def key_names(self) -> list[str]:
        """The names of the partition columns in the log."""
        found: list[str] = self.job.spec.keys.names
        return found

    def rows(self) -> dict[int, Mapping[str, Any]]:
        """Return the rows that come, by their numbers."""
        return {one.row["n"]: one.row for one in self.case.items if isinstance(one, _Row)}

    def source(self, name: str) -> str:
        """Return the call of `run` that plays it."""
        return _program(name, self.declaration, self.case)


@dataclass
class Counts:
    """How much was played."""

    count: int = 0
    declarations: int = 0
    refused: int = 0
    histories: int = 0
    by_law: dict[str, int] = field(default_factory=dict)


PLAYED = Counts()


def placed(
    declaration: Declaration, results: Results, keys: list[str], without: frozenset[str]
) -> dict[str, list[str]]:
    """Return the rows of a log by partition, window and pane, in their order."""
    found = dict[str, list[str]]()
    left_out = BY_BATCH | without
    for window, rows in (results.windows or {"": results}).items():
        rounded = columns_of(declaration, ROUNDS_ZERO, window) | {*keys}
        for row in rows:
            named = (f"{name}={shown(row[name])}" for name in (*keys, *PLACE) if name in row)
            place = ", ".join([*([f"window {window}"] if window else []), *named]) or "the log"
            kept = (
                f"{name}={shown(value) if name in rounded else repr(value)}"
                for name, value in row.items()
                if name not in left_out
            )
            found.setdefault(place, []).append(" ".join(kept))
    if declaration.kind in ("join", "within"):  # pairs of one time are in no order (docs/semantics.md section 1.3)
        return {place: sorted(rows) for place, rows in found.items()}
    return found


def shown(value: Any) -> str:
    """Return a value as text, 0.0 for -0.0."""
    return repr(value + 0.0 if isinstance(value, float) else value)


def columns_of(declaration: Declaration, kinds: tuple[str, ...], window: str = "") -> set[str]:
    """Return the result columns of aggregates of some kinds, in one of several windows."""
    found = declaration.options.get("aggregates", {})
    own = found.get(window, found)
    return {name for name, one in own.items() if isinstance(one, Call) and one.name in kinds}


def refused(results: Results) -> list[str]:
    """Return the rows of the quarantine, in no order, without what says where batches ended."""
    named = ("port", "window", "reason", "event_time", "row")
    return sorted(repr([_in_order(row.get(name)) for name in named]) for row in results.quarantine)


def _in_order(value: Any) -> Any:
    """Return a row with its columns sorted: those that the job does not read come after the others, or not."""
    return sorted(value.items()) if isinstance(value, dict) else value


def cut(case: _Case, chance: random.Random, *, restarts: bool = True, always: bool = False) -> _Case:
    """Return what happens in other micro-batches, with restarts between some."""
    many = 1.0 if always else chance.random()
    ends = tuple(_End) if restarts else (_End.CUT,)
    return replace(
        case, ends=tuple(chance.choice(ends[1:] or ends) if chance.random() < many else _End.NONE for _ in case.items)
    )


def with_restarts(case: _Case, chance: random.Random) -> _Case:
    """Return the same micro-batches with restarts between some."""
    return replace(case, ends=tuple(_End.RESTART if end and chance.random() < 0.7 else end for end in case.ends))


def require_same(law: str, one: Play, two: Play, left: Mapping[str, list[str]], right: Mapping[str, list[str]]) -> None:
    """Raise `Broken` at the first place where two plays differ."""
    for place in dict.fromkeys((*left, *right)):
        for first, second in zip_longest(left.get(place, []), right.get(place, [])):
            if first != second:
                raise Broken(report(law, f"{place}:\n    one  {first}\n    two  {second}", one, two))


def report(law: str, what: str, *plays: Play) -> str:
    """Return what is wrong, with a program that plays it."""
    names = ("one", "two", "three")
    programs = [play.source(name) for name, play in zip(names, plays, strict=False)]
    return "\n".join([f"{law}: {what}", "", *imports(*plays), "", *programs])


def imports(*plays: Play) -> Iterator[str]:
    """Yield the imports of a program that plays these."""
    used = sorted(set().union(*(names(play.declaration.options) for play in plays)))
    own = [name for name in used if name in users]
    public = [name for name in used if name not in users]
    yield "import datetime"
    if public:
        yield f"from panekeeper import {', '.join(public)}"
    yield "from panekeeper.testing import Clock, Flush, Restart, Watermark, run"
    if own:
        yield f"from tests.laws.user_code import {', '.join(own)}"


def _program(name: str, declaration: Declaration, case: _Case) -> str:
    """Return a call of `run`, without the columns that nothing reads."""
    options = dict(declaration.options)
    time = "timestamp_ntz" if "timestamp_ntz" in options.pop("schema") else "timestamp"
    read = {column for column in COLUMNS if re.search(rf"\b{column}\b", source(options))} | {"n"}
    options["schema"] = schema_of([column for column in COLUMNS if column in read], time)
    shown = tuple(
        _Row(one.port, {column: value for column, value in one.row.items() if column in read})
        if isinstance(one, _Row)
        else one
        for one in case.items
    )
    script = "".join(f"    {source(item)},\n" for item in replace(case, items=shown).script())
    lines = "".join(f"    {option}={source(one)},\n" for option, one in options.items())
    return f"{name} = run(\n{lines}    script=[\n{textwrap.indent(script, '    ')}    ],\n)"


def stored(job: MemoryJob) -> list[MemoryStore]:
    """Return copies of what the key groups of a job have stored."""
    return [one.copy() for one in job.stores.values()]
