"""What a session window is made of: what sessions hold, and what a firing becomes.

`window.py` takes the steps of a batch, and leaves these two duties to others. Which ones is chosen once, in `batch.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.guarded_aggregates import PlaceOf
from panekeeper.framework.core.sessions.joins import Joined
from panekeeper.framework.core.sessions.open_table import SessionColumns
from panekeeper.framework.core.sessions.standing import Standing


@dataclass(frozen=True, kw_only=True)
class SessionTransitions:
    """Sessions that fire or close at one watermark, or the flush, in the order of their ends. One entry each.

    Attributes:
        sessions: which; their `end` is that by which they complete.
        fires: whether it fires.
        closes: whether it closes.
        reasons: why it fires.
        standing: the results of the sessions that stand before; a firing takes back those of its session.
    """

    sessions: SessionColumns
    fires: np.ndarray
    closes: np.ndarray
    reasons: pa.Array
    standing: Standing

    @property
    def replaced(self) -> pa.ListArray:
        """The starts of the results that each firing takes back, beside that of its own start."""
        other = self.standing.start != self.sessions.first[self.standing.owner]
        return self.standing.where(other).as_lists(len(self.sessions))[0]


class SessionContents(Protocol):
    """What sessions hold, by partition code and time."""

    def load(self, tables: list[pa.Table]) -> None:
        """Take what was stored with sessions that are loaded, as far as contents are."""
        ...

    def insert(self, table: pa.Table, codes: np.ndarray, times: np.ndarray, seq: np.ndarray) -> None:
        """Add rows, or partial rows, in arrival order; `seq` are the arrival numbers of rows."""
        ...

    def remove(self, sessions: SessionColumns) -> None:
        """Remove what these sessions hold."""
        ...

    def forget(self, sessions: SessionColumns) -> None:
        """Remove what these sessions hold, but for what is of all their rows; only where partial results are kept."""
        ...

    def absorb(self, leaf: int) -> None:
        """Remove the stored values of a leaf; what it holds is in memory, and is stored anew with `save`."""
        ...

    def save(self, leaves: list[int], sessions: SessionColumns, bounds: list[int]) -> list[pa.Table | None]:
        """Store what leaves hold, or return it for each, so that it is stored with its sessions.

        Those of the n-th leaf are `sessions[bounds[n]:bounds[n + 1]]`.
        """
        ...

    def archive(self, leaves: list[int], sessions: SessionColumns, bounds: list[int]) -> list[pa.Table | None]:
        """As `save`, for new archives; what they hold is no longer in memory."""
        ...


class SessionSource(Protocol):
    """What can compute the aggregates of sessions."""

    def results(self, sessions: SessionColumns, place: PlaceOf) -> list[pa.Array]:
        """Return the finished aggregates of each session."""
        ...


class SessionOutput(Protocol):
    """What events become: results of aggregates, or calls of an operator."""

    @property
    def needs_every_join(self) -> bool:
        """Whether rows are handled one by one as they join."""
        ...

    def on_merge(self, code: int, merged: tuple[Joined, ...], session: Joined, prepare: Callable[[], None]) -> None:
        """Handle sessions that became one, by a row that follows; `prepare()` makes the contents those before it."""
        ...

    def on_insert(self, row: pa.Table, code: int, session: Joined) -> None:
        """Handle one row that joined a session."""
        ...

    def on_drop(self, table: pa.Table, codes: np.ndarray, detail: Callable[[int | None], str]) -> None:
        """Handle rows that are too late; `detail(event time)` is a text that says by how much."""
        ...

    def on_no_session(self, table: pa.Table, detail: Callable[[int | None], str]) -> None:
        """Handle rows that have no gap."""
        ...

    def on_transitions(self, transitions: SessionTransitions) -> list[pa.Array]:
        """Handle sessions that fire or close; return the results of those that fire, where they are taken back."""
        ...
