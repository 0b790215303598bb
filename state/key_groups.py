"""Key groups: a fixed number of buckets that share out the keys, and the ids that spread them evenly.

A key belongs to group `pmod(xxhash64(keys), n)`, and n is part of the checkpoint, as Flink's maximum parallelism is.
Spark assigns rows to shuffle partitions by its own hash of the group column, and that hash is uneven for 0, 1, 2, ...
(four of them reach two of four shuffle partitions). So the column holds a *representative id* of each group, chosen so
that group i is in shuffle partition i mod p.
"""

from __future__ import annotations

MAX_KEY_GROUPS = 4096
"""More groups cost more in segments than they gain in parallelism."""

_MASK = 0xFFFFFFFF
_SEED = 42  # Spark's seed of HashPartitioning


def group_ids(groups: int, partitions: int) -> tuple[int, ...]:
    """Return one representative id for each group; id i hashes to shuffle partition `i % partitions`.

    Raises:
        ValueError: `groups` is not in 1..4096.

    >>> group_ids(4, 4)
    (12, 6, 2, 0)
    """
    if not 1 <= groups <= MAX_KEY_GROUPS:
        raise ValueError(f"key_groups is {groups}; it must be in 1..{MAX_KEY_GROUPS}")
    free_per_partition: dict[int, list[int]] = {}  # shuffle partition -> its groups that have no id yet
    for group in range(groups):
        free_per_partition.setdefault(group % partitions, []).append(group)
    ids = [0] * groups
    candidate = 0
    while free_per_partition:
        home = spark_hash(candidate) % partitions
        if home in free_per_partition:
            ids[free_per_partition[home].pop(0)] = candidate
            if not free_per_partition[home]:
                del free_per_partition[home]
        candidate += 1
    return tuple(ids)


def spark_hash(value: int) -> int:
    """Return Spark's `hash()` of one 32-bit int (Murmur3 x86, seed 42), as a signed 32-bit number.

    >>> spark_hash(0), spark_hash(1)
    (933211791, -559580957)
    """
    k = _rotate(value & _MASK, 0xCC9E2D51, 15) * 0x1B873593 & _MASK
    h = _SEED ^ k
    h = ((h << 13) | (h >> 19)) & _MASK
    h = (h * 5 + 0xE6546B64) & _MASK ^ 4
    h = (h ^ (h >> 16)) * 0x85EBCA6B & _MASK
    h = (h ^ (h >> 13)) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


def _rotate(value: int, factor: int, bits: int) -> int:
    product = value * factor & _MASK
    return ((product << bits) | (product >> (32 - bits))) & _MASK
