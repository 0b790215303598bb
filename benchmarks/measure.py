"""Measuring contenders side by side, and judging whether they computed the same.

Of each peer the answer is compared first: we and the peer run over the peer's rows, into a sink that keeps them,
and every row must be equal. That run warms both up, too. Then come rounds; in each of them every contender
runs once over its rows, in one order and in the next round in the other, so that a busy moment of the machine does
not always meet the same one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

import pyarrow as pa

from benchmarks.contenders import Batch, Place, Side
from benchmarks.data import Input


class Mismatch(Exception):
    """Two contenders computed different results from the same rows."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A contender and the rows it runs over.

    Attributes:
        side: the contender.
        given: its input.
        warm: micro-batches at the beginning of a run that do not count.
    """

    side: Side
    given: Input
    warm: int


@dataclass(kw_only=True)
class Pace:
    """How fast a contender was: the seconds of its steady batches, round by round."""

    rows: int
    """Rows of one batch."""
    rounds: list[list[float]] = field(default_factory=list)
    compared: int | None = None
    """Result rows that were compared with ours; None for ourselves."""

    @property
    def seconds(self) -> float:
        """Median duration of a steady batch."""
        return median(seconds for batches in self.rounds for seconds in batches)

    @property
    def rate(self) -> float:
        """Rows a second in the median steady batch."""
        return self.rows / self.seconds

    def rates(self) -> list[float]:
        """Rows a second, by round."""
        return [self.rows / median(batches) for batches in self.rounds]


Tell = Callable[[str], None]


def compete(ours: Entry, peers: list[Entry], place: Place, *, rounds: int, tell: Tell) -> list[Pace]:
    """Compare answers, then measure; return the paces of ours and of each peer. Raises `Mismatch`."""
    paces = [Pace(rows=entry.given.rows) for entry in (ours, *peers)]
    answers: dict[Input, pa.Table] = {}
    for peer, pace in zip(peers, paces[1:], strict=True):
        if peer.given not in answers:
            answers[peer.given] = ours.side.answer(peer.given, place)
        pace.compared = compare(answers[peer.given], peer.side.answer(peer.given, place), peer.side.name)
        tell(f"{peer.side.name}: {pace.compared:,} result rows are the same")
    answers.clear()
    contenders = list(zip((ours, *peers), paces, strict=True))
    for number in range(rounds):
        for entry, pace in contenders if number % 2 == 0 else reversed(contenders):
            batches = entry.side.measured(entry.given, place)
            pace.rounds.append(steady(batches, entry))
            shown = " ".join(f"{batch.seconds:.2f}" for batch in batches)
            tell(f"round {number + 1}, {entry.side.name}: {shown} s (load {os.getloadavg()[0]:.1f})")
    return paces


def steady(batches: list[Batch], entry: Entry) -> list[float]:
    """Return the seconds of the batches that count: full ones, after the first ones."""
    full = [batch.seconds for batch in batches if batch.rows >= entry.given.rows]
    if len(full) < entry.given.files:
        raise Mismatch(f"{entry.side.name} read {len(full)} of {entry.given.files} files in batches of their own")
    return full[entry.warm :]


def compare(ours: pa.Table, theirs: pa.Table, name: str) -> int:
    """Return how many rows both tables have; raises `Mismatch` if they are not the same rows, in any order."""
    by = [(column, "ascending") for column in ours.column_names]
    theirs = theirs.select(ours.column_names).cast(ours.schema).sort_by(by).combine_chunks()
    ours = ours.sort_by(by).combine_chunks()
    if ours.equals(theirs):
        if not ours.num_rows:
            raise Mismatch(f"{name}: there are no results to compare")
        return int(ours.num_rows)
    same = [pair[0].equals(pair[1]) for pair in zip(ours.columns, theirs.columns, strict=True)]
    differing = [column for column, equal in zip(ours.column_names, same, strict=True) if not equal]
    raise Mismatch(
        f"{name}: {ours.num_rows} rows of ours, {theirs.num_rows} of theirs; differing: {', '.join(differing)}\n"
        f"ours:   {_only(ours, theirs)}\ntheirs: {_only(theirs, ours)}"
    )


def _only(table: pa.Table, other: pa.Table) -> list[dict[str, object]]:
    known = {tuple(row.values()) for row in other.to_pylist()}
    rows = (row for row in table.to_pylist() if tuple(row.values()) not in known)
    return [row for _, row in zip(range(3), rows, strict=False)]
