"""Ids of key groups spread evenly over the shuffle partitions."""

from __future__ import annotations

import pytest

from panekeeper.state.key_groups import group_ids, spark_hash


@pytest.mark.parametrize(("groups", "partitions"), [(1, 200), (4, 4), (8, 4), (3, 8), (64, 7), (200, 200)])
def test_group_i_is_in_shuffle_partition_i(groups: int, partitions: int) -> None:
    """Ids are distinct, and Spark's hash of id i is i modulo the number of partitions."""
    ids = group_ids(groups, partitions)
    assert len(set(ids)) == groups
    assert [spark_hash(one) % partitions for one in ids] == [group % partitions for group in range(groups)]


@pytest.mark.parametrize("groups", [0, -1, 4097])
def test_the_number_of_groups_has_bounds(groups: int) -> None:
    """A number outside 1..4096 is refused with a message that names it and the rule."""
    with pytest.raises(ValueError, match=f"key_groups is {groups}; it must be in 1..4096"):
        group_ids(groups, 4)
