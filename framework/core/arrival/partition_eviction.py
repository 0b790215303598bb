"""Partition eviction: which partitions age out in a round, and how rows are split into rounds, so that it is in time.

The least recently *inserted* one is first; a firing does not count as use. Limits are checked after a whole insertion,
its trigger and tumble included, and the partition of the row may itself be evicted (docs/semantics.md section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.protocol import RunningPolicy
from panekeeper.framework.core.stable_order import stable_order


def split_into_rounds(
    policy: RunningPolicy | None, codes: np.ndarray, at: np.ndarray, partitions: Partitions
) -> Iterator[np.ndarray]:
    """Yield the positions of the rows of each round: no partition is evicted before the last of them."""
    if policy is None:
        yield np.arange(len(codes))
    elif policy.partition_age_us is not None:
        yield from _split_by_age(policy.partition_age_us, codes, at, partitions)
    else:
        begin = 0
        while begin < len(codes):
            end = policy.rows_within_limit(codes, begin, partitions)
            yield np.arange(begin, end)
            begin = end


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


def age_out(
    age: int | None, ends: np.ndarray, partitions: Partitions, *, after_outage: bool, waits: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the last instant (us) of a round for each partition; the partitions that age out in it, and when.

    What is overdue is evicted now, not in the past. A partition is evicted before the window batch of that instant,
    which waits for rows: only what is due earlier is in its round, even if no more rows of the instant come (`waits`).

    Args:
        age: at which a partition is evicted, us; None if none is.
        ends: the last instant of the round for each partition, by code, if it stays.
        partitions: with the last insertions of the round.
        after_outage: whether what is overdue happens now.
        waits: whether the round has the window batches of its last instant, too.
    """
    if age is None:
        none = np.empty(0, dtype=np.int64)
        return ends, none, none
    due = partitions.last_at + age
    aged_out = np.flatnonzero(partitions.live & (due <= ends))
    if after_outage:
        return ends, aged_out, ends[aged_out]
    end_at = ends.copy()
    end_at[aged_out] = due[aged_out] - waits
    return end_at, aged_out, due[aged_out]
