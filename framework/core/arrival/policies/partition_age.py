"""`PartitionAge`: evicts a partition so long after its newest row (docs/semantics.md section 4.2)."""

from __future__ import annotations

from panekeeper.framework.core.arrival.policies.protocol import RunningPolicy
from panekeeper.framework.declarations.policies import PartitionAge


class PartitionAgePolicy(RunningPolicy):
    """Evict partitions by the clock; how is in `panekeeper.framework.core.arrival.partition_eviction`."""

    def __init__(self, declared: PartitionAge) -> None:
        self.partition_age_us = declared.us
