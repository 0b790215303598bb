"""How late a pane is visible, and how long the job takes to recover, from times that were noted.

The latency of a pane is the time from when Kafka stored the row that completes it, by the time in the message that the
broker has set, to when the first commit with the pane was written to the table's log. That row is the first one that
takes the watermark to the pane's end: its event time is the end of the pane and the watermark's delay.

After a start the job is behind. It has caught up at the first commit that is no more behind than `_TOLERANCE` times the
median of all commits, where a commit is behind by its own time less the event time of the last row that it has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from benchmarks.soak.load import SECOND, Load

_TOLERANCE = 2.0


@dataclass(frozen=True, kw_only=True)
class PaneLatency:
    """A pane that is visible; times in seconds since the epoch.

    Attributes:
        pane: its start, us.
        stored: when Kafka stored the row that completes it.
        visible: when the first commit that has it was written.
    """

    pane: int
    stored: float
    visible: float

    @property
    def seconds(self) -> float:
        """The time between both; not negative, for Kafka's time is one of milliseconds."""
        return max(0.0, self.visible - self.stored)


@dataclass(frozen=True, kw_only=True)
class ReadRows:
    """A batch that has been committed.

    Attributes:
        at: when, seconds since the epoch.
        rows: rows that it has read.
    """

    at: float
    rows: int


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """A start of the job after it was killed, or its first; times in seconds since the epoch.

    Attributes:
        began: when it was killed, or first started.
        committed: when the first batch after that was committed; None: not before the next kill.
        caught_up: when the job was behind no more than usual; None: not before the next kill.
        until: when the effects of it ended: `caught_up`, or the next kill, or the last commit.
    """

    began: float
    committed: float | None
    caught_up: float | None
    until: float


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the least value that so large a share of the values does not exceed; None if there are none.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5), percentile([1.0, 2.0], 0.99), percentile([], 0.5)
    (2.0, 2.0, None)
    """
    ordered = sorted(values)
    return ordered[max(0, -(-round(share * 1e6) * len(ordered) // 1_000_000) - 1)] if ordered else None


def pane_latencies(stored: dict[int, float], shown: Sequence[tuple[float, int]]) -> list[PaneLatency]:
    """Return the latency of each pane that a row has completed and that is visible.

    Args:
        stored: for each pane, when Kafka stored the row that completes it.
        shown: time and last pane of each commit to the log, in order. Panes complete in order, and all keys of a pane
            in one commit.
    """
    found, at = [], 0
    for pane in sorted(stored):
        while at < len(shown) and shown[at][1] < pane:
            at += 1
        if at == len(shown):
            break
        found.append(PaneLatency(pane=pane, stored=stored[pane], visible=shown[at][0]))
    return found


def recoveries(began: Sequence[float], batches: Sequence[ReadRows], load: Load) -> list[Recovery]:
    """Return how the job recovered.

    Args:
        began: the first start and the kills, in order.
        batches: committed batches, in order.
        load: what was sent.
    """
    behind = _behind(batches, load)
    limit = _TOLERANCE * median(seconds for _, seconds in behind) if behind else 0.0
    last = max((at for at, _ in behind), default=began[-1])
    found = []
    for begin, end in pairwise([*began, max(last, began[-1])]):
        after = [(at, seconds) for at, seconds in behind if begin < at <= end]
        caught_up = next((at for at, seconds in after if seconds <= limit), None)
        committed = after[0][0] if after else None
        found.append(
            Recovery(
                began=begin, committed=committed, caught_up=caught_up, until=end if caught_up is None else caught_up
            )
        )
    return found


def undisturbed(latencies: Iterable[PaneLatency], recovered: Sequence[Recovery]) -> list[PaneLatency]:
    """Return the latencies of those panes that became visible while the job was neither down nor catching up."""
    return [one for one in latencies if not any(one.stored <= r.until and r.began <= one.visible for r in recovered)]


def _behind(batches: Sequence[ReadRows], load: Load) -> list[tuple[float, float]]:
    """Return time and seconds behind the present of each batch that has read rows."""
    found, rows = [], 0
    for batch in batches:
        rows += batch.rows
        if batch.rows:
            newest = load.start_us / SECOND + rows / load.rate
            found.append((batch.at, max(0.0, batch.at - newest)))
    return found
