"""Every row accounted for: the counts and sums of all keys and panes, as sent and as in the job's table.

What was sent is computed here once more from the load (`load.py`), by numpy, pane by pane. What the table holds is
read without Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.soak.load import Load, Numbers

_EXAMPLES = 5


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Count and sum of values of each key and pane. Of one length, ordered by pane and key, each of them once.

    Attributes:
        pane: start of the pane, us.
        key: the key.
        count: number of rows.
        total: sum of their values.
    """

    pane: Numbers
    key: Numbers
    count: Numbers
    total: Numbers


@dataclass(frozen=True, kw_only=True)
class Differences:
    """How the table differs from what was sent.

    Attributes:
        results: keys with panes that were compared.
        rows: rows that were sent for them.
        lost: rows that no result has.
        doubled: rows that results have too often.
        wrong: results with the right number of rows and another sum.
        repeated: rows of the table for a firing that it has already.
        examples: some of them, for a reader.
    """

    results: int = 0
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    repeated: int = 0
    examples: tuple[str, ...] = ()

    def __add__(self, other: Differences) -> Differences:
        """Return both together."""
        added = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)}
        return Differences(**added | {"examples": added["examples"][:_EXAMPLES]})

    @property
    def are_none(self) -> bool:
        """Whether each row is in its result, once."""
        return not (self.lost or self.doubled or self.wrong or self.repeated)


def sent_sums(load: Load, panes: range) -> Sums:
    """Return what was sent for these panes."""
    first, end = load.rows_before(panes[0]), load.rows_before(panes[-1] + panes.step)
    if first == end:
        return _empty()
    keys, values = load.drawn(first, end)
    starts = load.event_us(first, end) // load.pane_us * load.pane_us
    order = np.lexsort((keys, starts))
    starts, keys, values = starts[order], keys[order], values[order]
    first_of = np.flatnonzero(np.r_[True, (starts[1:] != starts[:-1]) | (keys[1:] != keys[:-1])])
    return Sums(
        pane=starts[first_of],
        key=keys[first_of],
        count=np.diff(np.r_[first_of, len(keys)]),
        total=np.add.reduceat(values, first_of),
    )


def stored_sums(log: pa.Table) -> tuple[Sums, int]:
    """Return the newest result of each key and pane, and how many rows repeat a firing.

    Args:
        log: rows of the job's log: key, pane_start, refinement, n and total.
    """
    names = ("pane_start", "key", "refinement", "n", "total")
    # Null sorts nowhere and equals nothing; it is no sum and no count that was sent, and no key.
    pane, key, refinement, count, total = (
        pc.fill_null(log[name].cast(pa.int64()), -1).to_numpy().astype(np.int64) for name in names
    )
    if not len(key):
        return _empty(), 0
    order = np.lexsort((refinement, key, pane))
    pane, key, refinement = pane[order], key[order], refinement[order]
    same = (pane[1:] == pane[:-1]) & (key[1:] == key[:-1])
    repeated = int(np.count_nonzero(same & (refinement[1:] == refinement[:-1])))
    last_of = np.flatnonzero(np.r_[~same, True])
    newest = order[last_of]
    return Sums(pane=pane[last_of], key=key[last_of], count=count[newest], total=total[newest]), repeated


def compare(sent: Sums, stored: Sums, repeated: int = 0) -> Differences:
    """Return how results differ from what was sent.

    Args:
        sent: what should be there.
        stored: what is there.
        repeated: rows of the table for a firing that it has already.
    """
    pane, key = np.r_[sent.pane, stored.pane], np.r_[sent.key, stored.key]
    (_, pane_number), (_, key_number) = (np.unique(column, return_inverse=True) for column in (pane, key))
    place = pane_number * (key_number.max(initial=0) + 1) + key_number
    places, one_of = np.unique(place, return_index=True)
    sent_place, stored_place = place[: len(sent.key)], place[len(sent.key) :]
    expected, expected_total = _spread(sent, np.searchsorted(places, sent_place), len(places))
    count, total = _spread(stored, np.searchsorted(places, stored_place), len(places))
    wrong = (expected == count) & (expected_total != total)
    differing = np.flatnonzero((expected != count) | wrong)
    examples = [
        f"key {key[one_of[at]]}, pane of {pane[one_of[at]]}: sent {expected[at]} rows with the sum "
        f"{expected_total[at]}, in the table {count[at]} with {total[at]}"
        for at in differing[:_EXAMPLES]
    ]
    return Differences(
        results=len(sent.key),
        rows=int(sent.count.sum()),
        lost=int(np.maximum(expected - count, 0).sum()),
        doubled=int(np.maximum(count - expected, 0).sum()),
        wrong=int(np.count_nonzero(wrong)),
        repeated=repeated,
        examples=tuple(examples),
    )


def panes_together(load: Load, rows: int) -> list[range]:
    """Return the panes of a load in ranges that have about so many rows each, for what memory can hold at a time."""
    panes = load.panes
    many = max(1, rows * 1_000_000 // (load.rate * load.pane_us))
    return [panes[at : at + many] for at in range(0, len(panes), many)]


def _spread(sums: Sums, at: Numbers, length: int) -> tuple[Numbers, Numbers]:
    count, total = np.zeros(length, np.int64), np.zeros(length, np.int64)
    count[at], total[at] = sums.count, sums.total
    return count, total


def _empty() -> Sums:
    none = np.empty(0, np.int64)
    return Sums(pane=none, key=none, count=none, total=none)
