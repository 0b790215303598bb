"""The documented way to write one's own windows in Spark: `transformWithStateInPandas`, one key at a time.

Written as the guide of Spark shows it, and with what makes it fast: one list append or one state value a key and
batch, state types given as structs, at most one timer a pane, numpy for the arithmetic.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import ArrayType, DoubleType, LongType, StructField, StructType

from benchmarks.contenders import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessorHandle, TimerValues

_ROW = StructType([StructField("pane", LongType()), StructField("v", DoubleType())])
_ROWS_STATE = StructType(
    [
        StructField("at", ArrayType(LongType())),
        StructField("v", ArrayType(DoubleType())),
        StructField("since", LongType()),
    ]
)
_MEDIANS = "key bigint, pane_start timestamp, pane_end timestamp, median double"
_FIRINGS = "key bigint, fired_at timestamp, highest double, n bigint"


class Medians(StatefulProcessor):
    """The median of each pane: rows are appended to a list, a timer at the end of each pane reads it."""

    def __init__(self, duration_us: int) -> None:
        self._duration = duration_us

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._handle = handle
        self._rows = handle.getListState("rows", _ROW)

    def handleInputRows(  # type: ignore[override]  # noqa: N802 -- in this variant, rows are frames
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Store the rows, and register a timer for the end of each pane."""
        frame = pd.concat(rows)
        panes = micros(frame["ts"]) // self._duration
        self._rows.appendList(list(zip(panes.tolist(), frame["v"].tolist(), strict=True)))
        for pane in np.unique(panes).tolist():
            self._handle.registerTimer((pane + 1) * self._duration // 1000)
        return iter(())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Emit the median of the pane that has ended, and remove its rows."""
        end = expiredTimerInfo.getExpiryTimeInMs() * 1000
        ended = end // self._duration - 1
        kept = list(self._rows.get())
        values = [v for pane, v in kept if pane == ended]
        others = [row for row in kept if row[0] != ended]
        if others:
            self._rows.put(others)
        else:
            self._rows.clear()
        start, until = instants(np.array([end - self._duration, end]))
        median = float(np.median(values))
        yield pd.DataFrame({"key": [key[0]], "pane_start": [start], "pane_end": [until], "median": [median]})

    def close(self) -> None:
        """Nothing to close."""


class PerKeyWindow(StatefulProcessor):
    """What count, time and delta windows have in common: the rows still needed, in one state value for each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the state."""
        self._kept = handle.getValueState("kept", _ROWS_STATE)

    def handleInputRows(  # type: ignore[override]  # noqa: N802 -- in this variant, rows are frames
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Append the new rows to the stored ones, fire, and store what is still needed."""
        frame = pd.concat(rows).sort_values("ts")
        at, values = micros(frame["ts"]), frame["v"].to_numpy()
        kept = self._kept.get()
        held, since = 0, 0
        if kept is not None:
            held, since = len(kept[0]), kept[2]
            at = np.concatenate([np.array(kept[0], dtype=np.int64), at])
            values = np.concatenate([np.array(kept[1]), values])
        fired, begin, since = self.fire(at, held, since)
        self._kept.update((at[begin:].tolist(), values[begin:].tolist(), since))
        if fired:
            yield pd.DataFrame(
                {
                    "key": [key[0]] * len(fired),
                    "fired_at": instants(at[[row for row, _, _ in fired]]),
                    "highest": [values[low:high].max() for _, low, high in fired],
                    "n": [high - low for _, low, high in fired],
                }
            )

    @abstractmethod
    def fire(self, at: np.ndarray, held: int, since: int) -> tuple[list[tuple[int, int, int]], int, int]:
        """Return the firings, where the rows still needed begin, and the number of rows since the last firing.

        Args:
            at: arrival times, us: of `held` stored rows, then of the new ones.
            held: number of stored rows.
            since: rows since the last firing, or what `fire` returned last.

        A firing is (the row that fired, first row of its content, row after its content).
        """

    def close(self) -> None:
        """Nothing to close."""


class SlidingCount(PerKeyWindow):
    """The newest `size` rows, at every `every`-th."""

    def __init__(self, size: int, every: int) -> None:
        self._size, self._every = size, every

    def fire(self, at: np.ndarray, held: int, since: int) -> tuple[list[tuple[int, int, int]], int, int]:
        """Fire at every `every`-th row."""
        rows = range(held + self._every - 1 - since, len(at), self._every)
        fired = [(row, max(row + 1 - self._size, 0), row + 1) for row in rows]
        return fired, max(len(at) - self._size, 0), (since + len(at) - held) % self._every


class SlidingTime(PerKeyWindow):
    """The rows of the last `seconds`, at every `every`-th row."""

    def __init__(self, seconds: int, every: int) -> None:
        self._age, self._every = seconds * 1_000_000 + 1000, every  # evicted a millisecond later, as by Panekeeper

    def fire(self, at: np.ndarray, held: int, since: int) -> tuple[list[tuple[int, int, int]], int, int]:
        """Fire at every `every`-th row."""
        begins = np.searchsorted(at, at - self._age, side="right").tolist()
        rows = range(held + self._every - 1 - since, len(at), self._every)
        fired = [(row, begins[row], row + 1) for row in rows]
        return fired, begins[-1], (since + len(at) - held) % self._every


class TumblingCount(PerKeyWindow):
    """Every `size` rows."""

    def __init__(self, size: int) -> None:
        self._size = size

    def fire(self, at: np.ndarray, held: int, since: int) -> tuple[list[tuple[int, int, int]], int, int]:
        """Fire when the window is full, and empty it."""
        ends = range(self._size, len(at) + 1, self._size)
        return [(end - 1, end - self._size, end) for end in ends], len(at) // self._size * self._size, 0


class TumblingDelta(PerKeyWindow):
    """The rows that came at most `seconds` after the first of them."""

    def __init__(self, seconds: int) -> None:
        self._size = seconds * 1_000_000

    def fire(self, at: np.ndarray, held: int, since: int) -> tuple[list[tuple[int, int, int]], int, int]:
        """Fire at the first row beyond the delta, which opens the next window."""
        fired: list[tuple[int, int, int]] = []
        begin = 0
        while True:
            end = int(np.searchsorted(at, at[begin] + self._size, side="right"))
            if end == len(at):
                return fired, begin, 0
            fired.append((end, begin, end))
            begin = end


def medians(duration_us: int) -> Query:
    """The median of each key and pane."""

    def query(source: DataFrame, _checkpoint: str) -> DataFrame:
        grouped = source.withWatermark("ts", "0 seconds").groupBy("key")
        return grouped.transformWithStateInPandas(Medians(duration_us), _MEDIANS, "Append", "EventTime")

    return query


def firings(processor: PerKeyWindow) -> Query:
    """The greatest value and the number of rows at each firing."""

    def query(source: DataFrame, _checkpoint: str) -> DataFrame:
        return source.groupBy("key").transformWithStateInPandas(processor, _FIRINGS, "Append", "None")

    return query


def micros(times: pd.Series[Any]) -> np.ndarray:
    """Return timestamps as whole microseconds since the epoch."""
    return times.to_numpy().astype("datetime64[us]").astype(np.int64)


def instants(us: np.ndarray) -> np.ndarray:
    """Return microseconds since the epoch as timestamps."""
    return us.astype("datetime64[us]").astype("datetime64[ns]")
