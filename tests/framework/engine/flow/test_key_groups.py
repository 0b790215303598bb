"""Key groups: ids that spread evenly over the shuffle partitions."""

from __future__ import annotations

import pytest

from framework.declarations.errors import DeclarationError
from framework.engine.flow.key_groups import group_ids, spark_hash


@pytest.mark.parametrize(("groups", "partitions"), [(1, 200), (4, 4), (8, 4), (3, 8), (64, 7), (200, 200)])
def test_group_i_lands_on_partition_i(groups: int, partitions: int) -> None:
    """Ids are distinct, and Spark's hash of id i is i modulo the number of partitions."""
    ids = group_ids(groups, partitions)
    assert len(set(ids)) == groups
    assert [spark_hash(one) % partitions for one in ids] == [group % partitions for group in range(groups)]


@pytest.mark.parametrize("groups", [0, -1, 4097])
def test_the_number_of_groups_has_bounds(groups: int) -> None:
    """The message names the value and the rule."""
    with pytest.raises(DeclarationError, match=f"key_groups is {groups}; it must be in 1..4096"):
        group_ids(groups, 4)
