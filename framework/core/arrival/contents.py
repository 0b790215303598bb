"""What a window keeps of its tuples between batches: the rows, or only partial results of a tumbling aggregate.

Both take rounds from the window and hand what happened to the answer; which one serves is decided once, from the plan.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from framework.core.arrival.batched import enter_all
from framework.core.arrival.event_table import Class, Moments, Phase, at_instants
from framework.core.arrival.output import Aggregated, Answer, Firings
from framework.core.arrival.partitions import NEVER, Partitions
from framework.core.arrival.policies.evaluate import cuts_of, measured, rule
from framework.core.arrival.policies.starts import TICK
from framework.core.arrival.policies.tumbling import Cuts, all_cut
from framework.core.arrival.round import Round, Stretch
from framework.core.arrival.row_buffer import Log
from framework.core.arrival.tumbling_aggregates import Cells
from framework.declarations.events import EventType, Reason
from framework.declarations.policies import Delta, Punctuation, Time
from framework.declarations.windows import ArrivalWindow, Batched, Sliding, Tumbling


class Keeper(Protocol):
    """Keeps tuples, or what stands for them."""

    def hears(self, kind: EventType) -> bool:
        """Whether moments of this kind need be made at all."""
        ...

    def round(self, work: Round) -> None:
        """Take the rows of a round."""
        ...

    def mark(self, codes: np.ndarray, at: int) -> None:
        """A window mark came."""
        ...

    def flush(self, codes: np.ndarray, at: int) -> None:
        """Fire what has not been shown."""
        ...

    def tell(self, kind: EventType, codes: np.ndarray, at: np.ndarray) -> None:
        """Tell of something that shows whole contents."""
        ...

    def born(self, moments: list[Moments]) -> None:
        """Tell of partitions that begin without a tuple."""
        ...

    def forget(self, codes: np.ndarray) -> None:
        """Nothing of these partitions is kept any longer."""
        ...

    def turn_back(self, now: int) -> None:
        """Nothing has arrived later than now."""
        ...

    def next_eviction(self, live: np.ndarray) -> int:
        """When the next tuple leaves by the clock, if anybody would hear of it."""
        ...


class LogKeeper:
    """Keeps the rows themselves."""

    def __init__(self, window: ArrivalWindow, log: Log, partitions: Partitions, answer: Answer) -> None:
        self._window = window
        self._log = log
        self._partitions = partitions
        self._answer = answer
        self.anew = False
        """The stored rows must be written anew: rows between those that stay were evicted, or arrival times changed."""

    def hears(self, kind: EventType) -> bool:
        """What the answer wants."""
        return self._answer.wants(kind)

    def round(self, work: Round) -> None:
        """Add the rows, ask the policies, answer, and let go of what is not wanted."""
        if work.table.num_rows:
            self._log.append(work.table, work.at, work.seq)
        offsets = self._log.offsets(len(work.stretch.held))
        ruling = rule(
            self._window, work.stretch, self._log, offsets, self._partitions, is_last_at_instant=work.is_last_at_instant
        )
        moments = work.moments
        if isinstance(self._window, Batched):
            moments = [m for m in moments if m.kind is not EventType.INSERTION]  # waiting tuples are not in yet
        self._answer.take([*moments, *ruling.moments], offsets)
        wanted = np.arange(len(self._log.codes)) - offsets[self._log.codes] >= ruling.begin[self._log.codes]
        for code, numbers in ruling.holes.items():
            wanted[offsets[code] : offsets[code + 1]] = False
            wanted[offsets[code] + numbers] = True
        self.anew |= bool(ruling.holes)
        self._log.keep(wanted)

    def mark(self, codes: np.ndarray, at: int) -> None:
        """Cut every partition of a punctuation window, empty ones too."""
        if isinstance(self._window, Tumbling) and isinstance(self._window.evict, Punctuation):
            self._cut(codes, at, Reason.PUNCTUATION)

    def flush(self, codes: np.ndarray, at: int) -> None:
        """Cut, fire, or let everything in, by the kind of window."""
        partitions = self._partitions
        if isinstance(self._window, Tumbling):
            self._cut(codes[partitions.size[codes] > 0], at, Reason.FLUSH)
        elif isinstance(self._window, Sliding):
            unseen = codes[partitions.since[codes] > 0]
            self._answer.take([self._whole(EventType.TRIGGER, unseen, at, Reason.FLUSH)], self._offsets())
        else:
            waiting = codes[partitions.waiting[codes] > 0]
            sizes = partitions.size.copy()
            updates = enter_all(waiting, sizes, at, partitions, self._window.retain)
            self._answer.take(updates.moments(), self._offsets())
            partitions.inside[waiting], partitions.waiting[waiting] = sizes[waiting], 0

    def tell(self, kind: EventType, codes: np.ndarray, at: np.ndarray) -> None:
        """Show the whole content of each partition."""
        if self._answer.wants(kind):
            low = np.zeros(len(codes), dtype=np.int64)
            high = self._partitions.inside[codes]
            moment = at_instants(kind, (codes, at), low, high, klass=Class.END, phase=Phase.PARTITION)
            self._answer.take([moment], self._offsets())

    def born(self, moments: list[Moments]) -> None:
        """Tell of it: there is no content yet."""
        self._answer.take(moments, self._offsets())

    def forget(self, codes: np.ndarray) -> None:
        """Drop the rows."""
        self._log.keep(~np.isin(self._log.codes, codes))

    def turn_back(self, now: int) -> None:
        """Change the arrival times of rows that seem to come from the future."""
        self.anew |= self._log.turn_back(now)

    def next_eviction(self, live: np.ndarray) -> int:
        """The oldest tuple's time, where tuples leave by the clock and the answer hears of evictions."""
        window = self._window
        if not isinstance(window, Sliding) or not isinstance(window.evict, Time):
            return NEVER
        if not self._answer.wants(EventType.EVICTION) or not len(self._log.codes):
            return NEVER
        return int(self._log.at.min()) + window.evict.us + TICK

    def save(self) -> None:
        """Store the rows."""
        self._log.save(rewrite=self.anew)

    def _cut(self, codes: np.ndarray, at: int, reason: Reason) -> None:
        cuts = all_cut(codes, self._partitions.size, at, reason)
        self._answer.take([cuts.moments()], self._offsets())
        self.forget(codes)
        self._partitions.inside[codes] = 0

    def _whole(self, kind: EventType, codes: np.ndarray, at: int, reason: Reason) -> Moments:
        low = np.zeros(len(codes), dtype=np.int64)
        instants = np.full(len(codes), at)
        high = self._partitions.inside[codes]
        return at_instants(kind, (codes, instants), low, high, klass=Class.END, reason=reason)

    def _offsets(self) -> np.ndarray:
        return self._log.offsets(len(self._partitions.live))


class CellKeeper:
    """Keeps one partial result a partition: tumbling windows whose aggregates can all be folded."""

    def __init__(self, window: Tumbling, cells: Cells, partitions: Partitions, answer: Aggregated) -> None:
        self._window = window
        self._cells = cells
        self._partitions = partitions
        self._answer = answer

    def hears(self, kind: EventType) -> bool:
        """Tumbles only, and those are made here."""
        return False

    def round(self, work: Round) -> None:
        """Fold the rows between the cuts."""
        policy, measure = self._window.evict, None
        if isinstance(policy, Delta):
            measure = measured(policy, work.table.column(policy.attribute).to_numpy()[work.order])
        cuts = cuts_of(self._window, work.stretch, measure, self._partitions)
        self._emit(cuts, self._cells.fold(work.stretch, cuts, work.table, work.order, work.seq))
        self._partitions.inside[:] = work.stretch.sizes - cuts.final(len(work.stretch.held))

    def mark(self, codes: np.ndarray, at: int) -> None:
        """Cut every partition of a punctuation window."""
        if isinstance(self._window.evict, Punctuation):
            self._cut(codes, at, Reason.PUNCTUATION)

    def flush(self, codes: np.ndarray, at: int) -> None:
        """Cut what is open."""
        self._cut(codes[self._partitions.size[codes] > 0], at, Reason.FLUSH)

    def tell(self, kind: EventType, codes: np.ndarray, at: np.ndarray) -> None:
        """Aggregates answer tumbles only."""

    def born(self, moments: list[Moments]) -> None:
        """Nothing to answer."""

    def forget(self, codes: np.ndarray) -> None:
        """Drop the partial results."""
        self._cells.forget(codes)

    def turn_back(self, now: int) -> None:
        """Partial results know no arrival times."""

    def next_eviction(self, live: np.ndarray) -> int:
        """Never: tuples leave by tumbles."""
        return NEVER

    def _cut(self, codes: np.ndarray, at: int, reason: Reason) -> None:
        none = np.empty(0, dtype=np.int64)
        size = self._partitions.size
        still = Stretch(code=none, number=none, at=none, held=size, sizes=size, until=np.full(len(size), at))
        cuts = all_cut(codes, size, at, reason)
        self._emit(cuts, self._cells.fold(still, cuts, self._cells.no_rows, none, none))
        self._partitions.inside[codes] = 0

    def _emit(self, cuts: Cuts, columns: list[pa.Array]) -> None:
        firings = Firings.of([cuts.moments()], EventType.EVICTION, empty=False)
        if len(firings.code):
            self._answer.emit(firings, [column.take(pa.array(firings.order)) for column in columns])
