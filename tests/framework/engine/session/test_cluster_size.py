"""With how many tasks a new checkpoint begins, if nobody has said it."""

from __future__ import annotations

import pytest

from panekeeper.framework.engine.session.cluster_size import default_key_groups, default_partitions
from panekeeper.state.key_groups import MAX_KEY_GROUPS, group_ids, spark_hash


@pytest.mark.parametrize(
    ("cores", "executors", "partitions"),
    [(2, 1, 2), (4, 3, 12), (1, 32, 32), (0, 0, 1), (96, 100, MAX_KEY_GROUPS)],
)
def test_each_core_of_each_executor_has_a_partition(cores: int, executors: int, partitions: int) -> None:
    """At least one, and not more than there can be key groups."""
    assert default_partitions(cores, executors) == partitions


@pytest.mark.parametrize("partitions", [1, 2, 3, 5, 7, 8, 12, 31, 200, MAX_KEY_GROUPS])
def test_no_core_has_more_key_groups_than_another(partitions: int) -> None:
    """And a small checkpoint has eight, for more cores later."""
    groups = default_key_groups(partitions)
    assert 8 <= groups < partitions + 8
    homes = [spark_hash(one) % partitions for one in group_ids(groups, partitions)]
    assert {homes.count(home) for home in range(partitions)} == {groups // partitions}
