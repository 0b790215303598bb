"""Partition eviction: which partitions are evicted, and how rows are split into rounds so that it happens in time.

The least recently *inserted* one is first; a firing does not count as use. Limits are checked after a whole insertion,
its trigger and tumble included, and the partition of the row may itself be evicted (docs/semantics.md section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from framework.core.arrival.partitions import Partitions
from framework.core.stable_order import stable_order
from framework.declarations.policies import PartitionAge, PartitionCount, PartitionEviction, TupleCount
from framework.declarations.windows import ArrivalWindow


def evicts_on_insertion(window: ArrivalWindow) -> bool:
    """Return whether partitions are evicted by insertions, not by the clock."""
    return isinstance(window.partition_eviction, PartitionCount | TupleCount)


def split_into_rounds(
    policy: PartitionEviction | None, codes: np.ndarray, at: np.ndarray, partitions: Partitions
) -> Iterator[np.ndarray]:
    """Yield the positions of the rows of each round: no partition is evicted before the last of them."""
    if isinstance(policy, PartitionAge):
        yield from _split_by_age(policy.us, codes, at, partitions)
    elif policy is None:
        yield np.arange(len(codes))
    else:
        begin = 0
        while begin < len(codes):
            end = _rows_within_limit(policy, codes, begin, partitions)
            yield np.arange(begin, end)
            begin = end


def partitions_over_limit(policy: PartitionEviction | None, partitions: Partitions) -> np.ndarray:
    """Return the partitions that must be evicted to keep the limit, in that order."""
    live = np.flatnonzero(partitions.live)
    oldest = live[np.argsort(partitions.last_seq[live], kind="stable")]
    if isinstance(policy, PartitionCount):
        excess = len(live) - policy.size
        # All empty ones older than the first with rows, even more than needed (docs/semantics.md section 4).
        leading = int(np.argmax(np.append(partitions.size[oldest] > 0, True)))
        return oldest[: max(excess, leading)] if excess > 0 else live[:0]
    if isinstance(policy, TupleCount):
        held = partitions.size[oldest]
        left = held.sum() - np.cumsum(held)
        if held.sum() > policy.size:
            return oldest[: int(np.argmax(left <= policy.size)) + 1]
    return live[:0]


def _rows_within_limit(
    policy: PartitionCount | TupleCount, codes: np.ndarray, begin: int, partitions: Partitions
) -> int:
    """Return the position after the first row, from `begin` on, that could exceed the limit."""
    if isinstance(policy, TupleCount):
        room = policy.size - int(partitions.size[partitions.live].sum())
        return min(len(codes), begin + max(room, 0) + 1)
    room = policy.size - int(np.count_nonzero(partitions.live))
    distinct, first = np.unique(codes[begin:], return_index=True)
    fresh = np.sort(first[~partitions.live[distinct]])
    return len(codes) if len(fresh) <= max(room, 0) else begin + int(fresh[max(room, 0)]) + 1


def _split_by_age(age: int, codes: np.ndarray, at: np.ndarray, partitions: Partitions) -> Iterator[np.ndarray]:
    """Yield rounds: a row whose partition has aged out by then is in the next one, where its key begins as new."""
    order = stable_order(codes)
    code, time = codes[order], at[order]
    first = np.ones(len(code), dtype=bool)
    first[1:] = code[1:] != code[:-1]
    before = np.where(first, np.where(partitions.live[code], partitions.last_at[code], time), np.roll(time, 1))
    passed = np.cumsum(time - before >= age)
    start = np.flatnonzero(first)
    base = np.repeat(np.where(first, passed - (time - before >= age), 0)[start], np.diff(np.append(start, len(code))))
    rounds = np.empty(len(code), dtype=np.int64)
    rounds[order] = passed - base
    for number in range(int(rounds.max(initial=0)) + 1):
        yield np.flatnonzero(rounds == number)
