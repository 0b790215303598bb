"""Partition eviction: how rows are split into rounds, so that it happens in time.

The least recently *inserted* one is first; a firing does not count as use. Limits are checked after a whole insertion,
its trigger and tumble included, and the partition of the row may itself be evicted (docs/semantics.md section 4.1).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from framework.core.arrival.partitions import Partitions
from framework.core.arrival.policies.protocol import RunningPolicy
from framework.core.stable_order import stable_order


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
