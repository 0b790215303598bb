"""What a state handler may see of a window in arrival order, and evict, while it drains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.partition_keys import PartitionKeys, code_of, key_row
from panekeeper.framework.declarations.durations import to_datetime
from panekeeper.state.errors import LifecycleError
from panekeeper.state.handler import OpenPartition
from panekeeper.state.records import NO_WATERMARK, SequenceRecord

if TYPE_CHECKING:
    from datetime import datetime

    from panekeeper.framework.core.arrival.output import ArrivalResults
    from panekeeper.framework.core.arrival.window import ArrivalWindowRunner


class ArrivalWindowControl:
    """Lists the live partitions of one key group, and evicts one."""

    def __init__(
        self,
        window: ArrivalWindowRunner,
        record: SequenceRecord,
        keys: PartitionKeys,
        partitions: Partitions,
        results: ArrivalResults,
    ) -> None:
        self._window = window
        self._record = record
        self._keys = keys
        self._partitions = partitions
        self._results = results
        self._latest = NO_WATERMARK

    @property
    def now(self) -> datetime | None:
        """The time of the last tick or row; None before the first."""
        now = self._now()
        return None if now == NO_WATERMARK else to_datetime(now)

    def evict_partition(self, key: Any) -> None:
        """Evict a partition, if it is live.

        Raises:
            LifecycleError: the window has no partitions, or its keys have another number of values or other types.
        """
        if not self._keys.schema.names:
            raise LifecycleError(f"partition {key!r} cannot be evicted: the window is not partitioned")
        self._now()
        self._window.on_evict_partitions(key_row(self._keys, key, "cannot be evicted"))

    def emit(self, key: Any, columns: dict[str, Any]) -> None:
        """Add a result row of a partition.

        Raises:
            LifecycleError: the key has another number of values or other types, or no time has come yet.
            DeclarationError: a column that the output does not declare.
        """
        if self._record.clock == NO_WATERMARK:
            raise LifecycleError(f"nothing can be emitted for {key!r}: no row and no time has come to this window yet")
        code = code_of(self._keys, key)
        self._partitions.grow()
        at = int(self._partitions.now(np.array([code]), self._record.clock)[0])
        self._results.add_drained(code, at if self._partitions.live[code] else self._now(), columns)

    def _now(self) -> int:
        """Return the latest time (us) of the window so far; that of a partition counts though it is evicted now."""
        self._latest = self._partitions.latest(max(self._record.clock, self._latest))
        return self._latest

    def partitions(self) -> list[OpenPartition]:
        """Return the live partitions, in the order in which their keys came up."""
        live = np.flatnonzero(self._partitions.live)
        sizes = self._partitions.size[live].tolist()
        return [
            OpenPartition(key=key, tuples=size, last_insertion=to_datetime(at))
            for key, size, at in zip(
                self._keys.values(live.tolist()), sizes, self._partitions.last_at[live].tolist(), strict=True
            )
        ]
