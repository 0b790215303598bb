"""How many tasks a new checkpoint is made for, where the user has not said it: by the cores of the cluster.

Shuffle partitions are fixed at the first batch (`panekeeper rescale` changes them), key groups for the life of a
checkpoint. So what counts is what the cluster has at the first start, and not what the machine of the driver has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from panekeeper.state.key_groups import MAX_KEY_GROUPS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = "spark.sql.shuffle.partitions"
FEWEST_KEY_GROUPS = 8
"""Of a checkpoint whose key groups the user has not chosen: a small one may get more cores later."""
_SPARKS_OWN = 200
"""Shuffle partitions of a query of the user's own in a session without the setting."""


@dataclass(frozen=True, kw_only=True)
class TaskNumbers:
    """What a new checkpoint begins with.

    Attributes:
        partitions: its shuffle partitions.
        key_groups: its key groups.
        source: where the numbers come from, for the log.
        to_set: whether the session of its query must be given the partitions.
    """

    partitions: int
    key_groups: int
    source: str
    to_set: bool

    def __str__(self) -> str:
        """Return what a user should know of them at the first start."""
        return (
            f"{self.key_groups} key groups on {self.partitions} shuffle partitions, by {self.source}. Each key of the "
            "windows is in one key group for ever, and as many tasks process windows at a time as the lesser of the "
            "numbers says. `panekeeper rescale` changes the shuffle partitions, up to the number of key groups; key "
            "groups are fixed for the life of the checkpoint. To begin with others: a new checkpoint folder, "
            f"windowed(..., key_groups=...), and {PARTITIONS} in the session"
        )


def default_partitions(cores: int, executors: int) -> int:
    """Return one shuffle partition for each core.

    Args:
        cores: of one executor.
        executors: how many there are.

    >>> default_partitions(4, 3)
    12
    """
    return min(max(1, cores) * max(1, executors), MAX_KEY_GROUPS)


def default_key_groups(partitions: int) -> int:
    """Return the least number of key groups that fills each shuffle partition alike, but not fewer than 8.

    >>> default_key_groups(2), default_key_groups(3), default_key_groups(32)
    (8, 9, 32)
    """
    partitions = min(partitions, MAX_KEY_GROUPS)
    return max(1, -(-FEWEST_KEY_GROUPS // partitions)) * partitions


def task_numbers(spark: SparkSession, key_groups: int | None, *, own_query: bool) -> TaskNumbers:
    """Return what a new checkpoint begins with.

    Args:
        spark: the session of the job.
        key_groups: what the declaration says; None: nothing.
        own_query: the query is one of the user's own, which no setting can be given to.
    """
    given = spark.conf.get(PARTITIONS, None)
    if given is not None:
        partitions = int(given)
        groups = key_groups or default_key_groups(partitions)
        return TaskNumbers(partitions=partitions, key_groups=groups, source=f"{PARTITIONS}={given}", to_set=False)
    cores, executors = _cores_and_executors(spark)
    partitions = default_partitions(cores, executors)
    groups = key_groups or default_key_groups(partitions)
    return TaskNumbers(
        partitions=_SPARKS_OWN if own_query else min(partitions, groups),  # one without a key group does nothing
        key_groups=groups,
        source=f"{cores * executors} cores (executors: {executors})",
        to_set=not own_query,
    )


def _cores_and_executors(spark: SparkSession) -> tuple[int, int]:
    """Return the cores of an executor, and how many there are: registered now, or to come by the settings."""
    context: Any = spark.sparkContext
    conf = context.getConf()
    if context.master.startswith("local"):
        return int(context.defaultParallelism), 1
    if not _cores_now(context):
        spark.range(1).count()  # waits until the first ones have registered
    registered = _cores_now(context)
    each = int(conf.get("spark.executor.cores", "0")) or max(registered, default=1)
    return each, max(len(registered), int(conf.get("spark.executor.instances", "0")), 1)


def _cores_now(context: Any) -> list[int]:
    """Return the cores of each registered executor."""
    every = context._jsc.sc().statusStore().executorList(True)  # noqa: SLF001 -- Python has no such call
    executors = [every.apply(number) for number in range(every.size())]
    return [int(one.totalCores()) for one in executors if one.id() != "driver"]
