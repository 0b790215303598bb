"""What is stored for each partition: arrays with one entry for each partition code.

They are loaded from the header, changed by the policies, and written back for the partitions that are live. The code of
a partition that is evicted stays its code until the batch ends; its entries begin again as those of a new one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.partition_keys import PartitionKeys, with_keys
from panekeeper.state.records import NEVER


@dataclass(frozen=True)
class PartitionColumn:
    """One stored number of a partition: its stored name, type, and its value in a new partition."""

    stored: str
    dtype: str
    initial: int | bool


PARTITION_COLUMNS = {
    "live": PartitionColumn("", "bool", False),
    "inside": PartitionColumn("_inside", "int64", 0),
    "waiting": PartitionColumn("_waiting", "int64", 0),
    "since": PartitionColumn("_since", "int64", 0),
    "full": PartitionColumn("_full", "bool", False),
    "last_at": PartitionColumn("_last_at", "int64", 0),
    "last_seq": PartitionColumn("_last_seq", "int64", 0),
    "due": PartitionColumn("_due", "int64", NEVER),
}
VALUE_COLUMNS = {"base": "_base", "oldest": "_oldest"}


@dataclass(frozen=True)
class PolicyError:
    """What a policy of the user's raised for one row: partition, arrival time (us), where, the error, and for what."""

    code: int
    at_us: int
    where: str
    error: Exception
    given: str = ""


@dataclass
class Partitions:
    """The partitions of one key group, by code."""

    keys: PartitionKeys
    value_type: pa.DataType
    """Type of the attribute that delta policies read (int64 or float64)."""
    aligned: bool = False
    """Whether periods of time count from the epoch."""
    inside: np.ndarray = field(init=False)
    waiting: np.ndarray = field(init=False)
    since: np.ndarray = field(init=False)
    full: np.ndarray = field(init=False)
    live: np.ndarray = field(init=False)
    last_at: np.ndarray = field(init=False)
    last_seq: np.ndarray = field(init=False)
    due: np.ndarray = field(init=False)
    base: list[float | int | None] = field(init=False)
    oldest: list[float | int | None] = field(init=False)
    policy_errors: list[PolicyError] = field(init=False, default_factory=list)
    """What policies of the user's raised in this batch; not stored."""

    def __post_init__(self) -> None:
        for name, spec in PARTITION_COLUMNS.items():
            setattr(self, name, np.empty(0, dtype=spec.dtype))
        self.base, self.oldest = [], []

    def load(self, table: pa.Table | None) -> np.ndarray:
        """Load the stored partitions; return their codes, in stored order."""
        if table is None:
            return np.empty(0, dtype=np.int64)
        codes = self.keys.encode(table)
        self.grow()
        for name, spec in PARTITION_COLUMNS.items():
            if spec.stored:
                getattr(self, name)[codes] = table.column(spec.stored).to_numpy()
        to_number = int if pa.types.is_integer(self.value_type) else float  # may have been stored as the other
        for name, stored in VALUE_COLUMNS.items():
            values = getattr(self, name)
            for code, value in zip(codes.tolist(), table.column(stored).to_pylist(), strict=True):
                values[code] = None if value is None else to_number(value)
        self.live[codes] = True
        return codes

    def store(self) -> tuple[pa.Table | None, np.ndarray]:
        """Return the live partitions as a table, and their codes in its order."""
        codes = np.flatnonzero(self.live)
        if not len(codes):
            return None, codes
        columns = {s.stored: pa.array(getattr(self, n)[codes]) for n, s in PARTITION_COLUMNS.items() if s.stored}
        for name, stored in VALUE_COLUMNS.items():
            values = getattr(self, name)
            columns[stored] = pa.array([values[code] for code in codes.tolist()], self.value_type)
        return with_keys(pa.table(columns), self.keys, codes), codes

    def grow(self) -> None:
        """Extend the arrays to every code that the keys have."""
        more = self.keys.count - len(self.live)
        if more <= 0:
            return
        for name, spec in PARTITION_COLUMNS.items():
            fresh = np.full(more, spec.initial, dtype=spec.dtype)
            setattr(self, name, np.concatenate([getattr(self, name), fresh]))
        self.base += [None] * more
        self.oldest += [None] * more

    def create(self, codes: np.ndarray, due: np.ndarray, *, full: bool) -> None:
        """Make partitions live; `due` is the first instant (us) of the timer of each."""
        self.live[codes] = True
        self.due[codes] = due
        self.full[codes] = full

    def clear(self, codes: np.ndarray) -> None:
        """Reset all entries of evicted partitions: their keys begin again as new (docs/semantics.md section 4)."""
        for name, spec in PARTITION_COLUMNS.items():
            getattr(self, name)[codes] = spec.initial
        for code in codes.tolist():
            self.base[code] = self.oldest[code] = None

    def instants_after(self, at: Any, period: int) -> Any:
        """Return when a timer is due next that counts from an instant (us), or from the epoch; also of an array."""
        return (at // period + 1) * period if self.aligned else at + period

    def now(self, codes: np.ndarray, clock: int) -> np.ndarray:
        """Return the present time (us) of each partition: that of its last insertion, if the clock is behind it."""
        return np.maximum(np.where(self.live[codes], self.last_at[codes], clock), clock)

    def leave_at(self, age: int) -> np.ndarray:
        """Return when each partition is evicted if no row comes and it is for so long without one; all in us."""
        leave: np.ndarray = self.last_at + age
        return leave

    def latest(self, clock: int) -> int:
        """Return the greatest of these times (us), and of the clock."""
        return int(self.last_at[self.live].max(initial=clock))

    @property
    def by_newest_row(self) -> np.ndarray:
        """The codes of the live partitions, in the order of their newest rows, the least recent first."""
        live = np.flatnonzero(self.live)
        return live[np.argsort(self.last_seq[live], kind="stable")]

    @property
    def size(self) -> np.ndarray:
        """Number of rows kept for each partition: inside the window, and waiting."""
        kept: np.ndarray = self.inside + self.waiting
        return kept
