"""The timers of the partitions of a window in arrival order: which are due next, which do nothing, which came too late.

A partition without rows keeps no timer: its next instants change nothing that anybody receives, so nothing is due
(docs/semantics.md section 2.4). Once a row comes, its timer is where it would be.

A clock that comes very late, as after the host was suspended, is an outage, though no start says so: firing once for
each of thousands of missed periods would take more memory than there is (docs/semantics.md section 7.5). Where each is
to fire, the way to the present is taken in several rounds, and one that leads to more results than fit is refused.
"""

from __future__ import annotations

import numpy as np

from panekeeper.framework.core.arrival.batched import skip_overdue
from panekeeper.framework.core.arrival.partitions import Partitions
from panekeeper.framework.core.arrival.policies.evaluate import timer_period
from panekeeper.framework.core.arrival.policies.registry import running_policy
from panekeeper.framework.core.arrival.protocol import ArrivalContents
from panekeeper.framework.core.arrival.round import ends_of
from panekeeper.framework.declarations.errors import InputError
from panekeeper.framework.declarations.windows import ArrivalWindow, Batched, Sliding
from panekeeper.state.duration_text import us_text
from panekeeper.state.records import NEVER

_OUTAGE_US = 60_000_000
_OUTAGE_PERIODS = 1000
"""A timer that is later than both is one of an outage."""

MOST_AT_ONCE = 2**18
"""How often timers are due in one of several rounds, over all partitions; each takes some hundred bytes meanwhile."""
MOST_CAUGHT_UP = 2**24
"""How often they may be due in all of these rounds of a micro-batch; what each leads to is kept until its end."""


class Timers:
    """The timers of a key group's partitions, for one micro-batch; all times in us."""

    def __init__(self, window: ArrivalWindow, partitions: Partitions, contents: ArrivalContents) -> None:
        self._window = window
        self._partitions = partitions
        self._contents = contents
        self._period = timer_period(window)
        self._evict = running_policy(window.evict) if isinstance(window, Sliding) else None
        self._caught_up = 0.0

    def next_due(self) -> int:
        """Return the next instant at which a timer does something; `NEVER` without one."""
        return int(self._partitions.due[self._partitions.live & ~self._idle()].min(initial=NEVER))

    def pass_idle(self, now: int, some: np.ndarray) -> None:
        """Pass the instants before `now` of those of some partitions that have no rows: nobody sees them.

        They are firings all the same, after which a trigger counts rows anew. Each row of before came before them.
        """
        if self._period is None:
            return
        due = self._partitions.due
        passed = np.flatnonzero(some & self._partitions.live & self._idle() & (due < now))
        due[passed] += -(-(now - due[passed]) // self._period) * self._period
        self._partitions.since[passed] = 0

    def too_late(self, now: int) -> np.ndarray:
        """Return for which partitions the clock comes so late that `catch_up` applies.

        Each for itself: others of its key group must not matter (docs/semantics.md section 10.1).
        """
        due = self._partitions.due
        if self._period is None or self._window.catch_up == "each":
            return np.zeros(len(due), dtype=bool)
        latest = now - max(_OUTAGE_US, _OUTAGE_PERIODS * self._period)
        late: np.ndarray = self._partitions.live & ~self._idle() & (due < latest)
        return late

    def end_of_round(self, now: int, some: np.ndarray) -> int:
        """Return where a round of some partitions on the way to `now` must end: not too many timers are due in it.

        It is `now` unless each missed period fires. Idle partitions pass their instants until then.

        Raises:
            InputError: too many are due in all.
        """
        if self._period is None or self._window.catch_up != "each":
            return now
        self.pass_idle(now, some)
        due = self._partitions.due[some & self._partitions.live & (self._partitions.due <= now)]
        periods = _count(due, now, self._period)
        if periods <= MOST_AT_ONCE:
            return now
        end = min(now, int(due.min()) + max(1, MOST_AT_ONCE // len(due)) * self._period)
        self._caught_up += _count(due[due <= end], end, self._period)
        none_passes = self._contents.fires_when_empty and self._window.partition_eviction is None
        if self._caught_up > MOST_CAUGHT_UP or (none_passes and periods > MOST_CAUGHT_UP):
            raise InputError(
                f"more than {MOST_CAUGHT_UP:,} periods of {us_text(self._period)} were missed, and by catch_up='each' "
                "each of them fires: their results do not fit into memory. Nothing was committed; start the job with "
                "catch_up='once' or 'skip', which can be changed back for the start after it, or take a longer period"
            )
        return end

    def skip_overdue(self, now: int, some: np.ndarray) -> None:
        """Skip overdue timers without firing; the next period counts from now, window batches keep to their grid."""
        if self._period is None:
            return
        if isinstance(self._window, Batched):
            skip_overdue(self._period, self._partitions, ends_of(some, now))
        else:
            late = some & self._partitions.live & (self._partitions.due <= now)
            self._partitions.due[late] = self._partitions.instants_after(now, self._period)

    def _idle(self) -> np.ndarray:
        """Return which partitions have no rows when their timer is due, if it leads to no event and no result then.

        Rows that are too old by then are still counted until a round runs, and nobody may see when that was.
        """
        if self._period is None or self._contents.fires_when_empty:
            return np.zeros(len(self._partitions.live), dtype=bool)
        empty: np.ndarray = self._partitions.size == 0
        if self._evict is not None:
            empty |= self._evict.evicted_at(self._partitions.last_at) <= self._partitions.due
        return empty


def _count(due: np.ndarray, end: int, period: int) -> float:
    """Return how often timers are due by then; a whole number, which may be beyond 64 bits."""
    return float(((end - due) // period + 1).sum(dtype=np.float64))
