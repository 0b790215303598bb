"""The rows of a load test: everything about row n follows from the seed, the rate and n.

So who compares the results at the end computes the rows once more, and depends on nothing that the generator, Kafka or
the job has kept. The event time of a row is the time at which it is due to be sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = npt.NDArray[np.int64]

HOT_KEY = 0
LAST_KEY = -1
"""Of the one row at the end that moves the watermark. Its pane is after the last one and never fires."""
SECOND = 1_000_000
_CHUNK = 10_000  # rows that are drawn together
_VALUES = 1_000


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is sent.

    Attributes:
        seed: of keys and values.
        rate: rows a second.
        rows: number of rows in all, without the one that moves the watermark at the end.
        keys: number of different keys; at least 2.
        hot_share: share of all rows that have the hot key, 0 to 1; the others have any other key.
        start_us: when the first row is sent, us since the epoch.
        pane_us: length of a pane; panes touch.
        delay_us: how far the job's watermark is behind the greatest event time.
    """

    seed: int
    rate: int
    rows: int
    keys: int
    hot_share: float
    start_us: int
    pane_us: int
    delay_us: int

    def drawn(self, first: int, end: int) -> tuple[Numbers, Numbers]:
        """Return keys and values of the rows from `first` to before `end`."""
        parts = [self._chunk(number) for number in range(first // _CHUNK, -(-end // _CHUNK))]
        skipped = first - first // _CHUNK * _CHUNK
        keys, values = (np.concatenate(column)[skipped : skipped + end - first] for column in zip(*parts, strict=True))
        return keys, values

    def event_us(self, first: int, end: int) -> Numbers:
        """Return the event times of the rows from `first` to before `end`, us."""
        return self.start_us + np.arange(first, end, dtype=np.int64) * SECOND // self.rate

    def rows_before(self, us: int) -> int:
        """Return how many rows have an event time before this one."""
        return min(self.rows, max(0, -(-(us - self.start_us) * self.rate // SECOND)))

    @property
    def panes(self) -> range:
        """The starts of all panes that get rows, us."""
        last = int(self.event_us(self.rows - 1, self.rows)[0])
        return range(self.start_us // self.pane_us * self.pane_us, last + 1, self.pane_us)

    @property
    def end_us(self) -> int:
        """The end of the last pane."""
        return self.panes[-1] + self.pane_us

    def completing_rows(self) -> Iterator[tuple[int, int]]:
        """Yield (row, start of the pane) for each pane that one of the rows completes.

        That is the first row that takes the watermark to the end of the pane.
        """
        for start in self.panes:
            row = self.rows_before(start + self.pane_us + self.delay_us)
            if row < self.rows:
                yield row, start

    def save(self, path: Path) -> None:
        """Write it for another process."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Load:
        """Return what `save` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def _chunk(self, number: int) -> tuple[Numbers, Numbers]:
        random = np.random.default_rng([self.seed, number])
        keys = random.integers(1, self.keys, _CHUNK)
        keys[random.random(_CHUNK) < self.hot_share] = HOT_KEY
        return keys, random.integers(0, _VALUES, _CHUNK)
