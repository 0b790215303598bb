"""Why did a pane fire, or why is there no result? The facts of one partition, gathered for `core.inspection.reasons`.

What is stored of the partition's key group is read; of the tables, the rows of the partition, and the watermarks of
batches. Which batch wrote a row of the log is in the commits of the table, as long as these are kept.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from datetime import time as time_of_day
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.diagnostics.inspector.keys import Key, key_as_stored, typed_key
from panekeeper.diagnostics.inspector.opened import Opened, opened
from panekeeper.diagnostics.inspector.panes import open_rows, stored_group
from panekeeper.diagnostics.inspector.quarantined import refused_of
from panekeeper.diagnostics.tables.rows import read_plain_table
from panekeeper.diagnostics.tables.written import commits_of_batches
from panekeeper.framework.core.inspection.kept_rows import has_row
from panekeeper.framework.core.inspection.nearest import alike, alike_but_for_case, nearest_panes, pane_text
from panekeeper.framework.core.inspection.one_key import is_of
from panekeeper.framework.core.inspection.open_work import horizon, open_work
from panekeeper.framework.core.inspection.panes import LATE, OPEN, OVERDUE
from panekeeper.framework.core.inspection.partners import RowFacts, equal_types, row_facts, why_joined, why_side
from panekeeper.framework.core.inspection.reasons import (
    Answer,
    Firing,
    PaneFacts,
    SourceTime,
    Verdict,
    why_partition,
)
from panekeeper.framework.core.inspection.reasons import why as why_of
from panekeeper.framework.core.inspection.recorded_windows import by_row_of
from panekeeper.framework.core.inspection.refusals import Refusal, missed_between, refusal_lines, with_lateness
from panekeeper.framework.core.job_spec import PORT
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.declarations.durations import time_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.recovery.storage.locations import Location
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER
from panekeeper.state.checkpoint.job_record import read_ports
from panekeeper.state.records import NO_WATERMARK, ByRowRecord, IntervalRecord, JoinRecord, SessionRecord
from panekeeper.state.spark_logs import log_lines
from panekeeper.state.table_roles import role_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.core.inspection.recorded import RecordedPort
    from panekeeper.state.store import MemoryStore

_NEAR = 3
_MOST_KEYS = 10_000
_DAY_US = 86_400_000_000
_STATES = {OPEN: "not fired yet", LATE: "fired", OVERDUE: "fires next"}
_MOST_PANES = 20
"""Of more panes that a row is of the answers are left out."""


def why(  # noqa: PLR0913 -- all by keyword but what is asked of
    checkpoint: Location,
    key: Key | None = None,
    pane: str | datetime | None = None,
    *,
    row: Mapping[str, Any] | None = None,
    window: str | None = None,
    batch: int | None = None,
    savepoint: str | None = None,
    s3: S3Options | None = None,
    spark: SparkSession | None = None,
) -> Answer:
    """Answer by what is stored and recorded, as `panekeeper.why` without a job (`diagnostics/replay/moved_by.py`)."""
    with opened(checkpoint, window=window, batch=batch, savepoint=savepoint, s3=s3, spark=spark) as state:
        state.require_one_window()
        key = dict(key or {})
        own = _port(state, key)
        if row is not None:
            return _why_row(state, own, row)
        partition = _Partition(state, own, key)
        if not own.has_panes:
            return partition.why_partition()
        if pane is None:
            raise DeclarationError("pane is missing; say when it starts, as in --pane 2013-03-08T10:00")
        return partition.why(*_bounds(own, partition, pane))


def _port(state: Opened, key: dict[str, Any]) -> RecordedPort:
    """Take the port out of a key, where there are several."""
    number = key.pop(PORT, 0) if len(state.ports) > 1 else 0
    numbers = {str(one.number): one for one in state.ports}
    if str(number) not in numbers:
        raise DeclarationError(f"port is {number!r}; the job has the ports 0 to {len(state.ports) - 1}")
    return numbers[str(number)]


def _why_row(state: Opened, port: RecordedPort, row: Mapping[str, Any]) -> Answer:
    missing = [name for name in (*port.row_keys, port.event_time) if name is not None and name not in row]
    if missing:
        raise DeclarationError(f"row lacks {', '.join(map(repr, missing))}, by which it finds its pane")
    names = dict(zip(port.row_keys, port.log_keys, strict=True))
    partition = _Partition(state, port, {names[name]: row[name] for name in names})
    if port.is_arrival or port.event_time is None:
        return partition.why_partition()
    at = time_of(row[port.event_time], "the event time of the row")
    if port.is_within:
        return why_joined(partition.row_facts(row, at))
    bounds = partition.panes_at(at)
    if refused := [one for one in partition.refused if one.at == at and not one.of_firing]:
        return partition.why_refused(at, bounds, refused)
    if not bounds:
        gap = "no open session has it" if port.is_session else "it lies between two panes, and in none"
        return Answer(verdict=Verdict.NEVER, reasons=(gap, *partition.nearest(at)))
    found = [(one, partition.why(*one)) for one in bounds[:_MOST_PANES]]
    (first, answer), others = found[0], found[1:]
    more = [f"it is also of pane {pane_text(*one)}: {each.verdict.value}" for one, each in others]
    more += [f"and of {len(bounds) - len(found)} more"] if len(bounds) > len(found) else []
    known = row_line(
        is_known=any(each.verdict not in (Verdict.NEVER, Verdict.NOT_YET) for _, each in found),
        is_held=any(partition.is_held(*one) for one in bounds),
        is_kept=has_row(port, partition.store, partition.stored_key, at),
    )
    return replace(answer, reasons=(f"its pane is {pane_text(*first)}", known, *answer.reasons, *more))


def row_line(*, is_known: bool, is_held: bool, is_kept: bool | None) -> str:
    """Return what is known of a row that was not refused.

    Args:
        is_known: whether anything is known of one of its panes.
        is_held: whether the state has one of them.
        is_kept: whether a row of its time is kept; None: only partial results are.

    >>> row_line(is_known=True, is_held=True, is_kept=False)
    'no row of this time is kept or in the quarantine'
    """
    if not is_known:
        return "no row of this time is known: its panes have none"
    if is_held and is_kept is not None:
        return "a row of this time is kept" if is_kept else "no row of this time is kept or in the quarantine"
    whose = "of its panes only partial results are kept" if is_held else "its panes are closed, and their rows removed"
    return f"no row of this time is in the quarantine; whether one is in the results is not known, as {whose}"


class _Partition:
    """One partition: what is stored of it, and what the tables have of it."""

    def __init__(self, state: Opened, port: RecordedPort, key: Key) -> None:
        missing = [name for name in port.log_keys if name not in key]
        if missing:
            raise DeclarationError(f"key lacks {', '.join(missing)}; give a value for each partition column")
        self._state, self._port = state, port
        self._key = typed_key(state, port, key)
        ports = state.ports if port.is_within else [port]
        self.store: MemoryStore = stored_group(state, ports, self._key)
        group = open_work(port, self.store)
        values = dict(zip(group.column_names, (self._key.values[name] for name in port.log_keys), strict=False))
        self.held: list[dict[str, Any]] = group.filter(is_of(group, values)).to_pylist()
        stored = (self._key.values[name] for name in port.log_keys)
        self.stored_key = dict(zip(port.keys.names, stored, strict=True))
        """Its values by the names of the columns in the state."""

    @cached_property
    def record(self) -> IntervalRecord | SessionRecord | ByRowRecord | JoinRecord:
        """The header of the key group: the watermark that it has acted on, whether it was flushed."""
        if self._port.is_within:
            return JoinRecord.decode(self.store.read_header())
        header = self._port.own(self.store).read_header()
        if self._port.is_by_row:
            return ByRowRecord.decode(header)
        return SessionRecord.decode(header) if self._port.is_session else IntervalRecord.decode(header)

    @cached_property
    def _geometry(self) -> Geometry:
        assert self._port.panes is not None
        return Geometry.of(self._port.panes, self._port.history)

    def why_partition(self) -> Answer:
        """Return what the partition has, where there are no panes, and when it fires."""
        held = self.held[0] if self.held else None
        if self._port.is_within:
            return why_side(held, self._sources[0], self.refused)
        return why_partition(self._port, held, self.refused)

    def row_facts(self, row: Mapping[str, Any], at: int) -> RowFacts:
        """Return what is known of a row of an interval join, by its columns that must be equal."""
        port, state = self._port, self._state
        equal = port.fields["equal"]
        kinds = equal_types(port, state.ports, self.store)
        missing = [name for name in equal[port.number] if name not in row]
        if missing:
            raise DeclarationError(f"row lacks {', '.join(map(repr, missing))}, by which its partners are found")
        own = {name: row[name] for name in kinds}
        values = key_as_stored(state.session, state.record.group_ids, kinds, own).values
        refused = [one for one in self.refused if one.at == at]
        return row_facts(port, state.ports, self.store, values, at, refused=refused, sources=self._sources[0])

    def why(self, start: int, end: int) -> Answer:
        """Return what has become of the pane with these bounds."""
        return why_of(self.facts(start, end))

    def why_refused(self, at: int, bounds: Sequence[tuple[int, int]], refused: Sequence[Refusal]) -> Answer:
        """Return what has become of a row of this time that was refused: of the last of its panes."""
        start, end = bounds[-1] if bounds else (at, at)
        facts = replace(self.facts(start, end), held=None, firings=(), refused=refused, unplaced=())
        if self._port.is_by_row:  # it may be in windows that end after it
            facts = replace(facts, closes_at=at + by_row_of(self._port.fields).reach_us)
        return why_of(facts)

    def _missed_of(self, closes: int, end: int) -> dict[int, int]:
        """Return batch -> its missed panes, of those in which a pane was closed and a later one of its rows was not."""
        if self._port.panes is None or not any(self._missed.values()):
            return {}
        until = max(self._closes(last) for _, last in self.panes_at(end - 1))
        return missed_between(self._missed, self._watermarks, closes, until, follows=self._sources[1])

    def is_held(self, start: int, end: int) -> bool:
        """Return whether the state has something of the pane."""
        return any((one["pane_start"], one["pane_end"]) == (start, end) for one in self.held)

    def facts(self, start: int, end: int) -> PaneFacts:
        """Return what is known of the pane with these bounds."""
        held = next((one for one in self.held if (one["pane_start"], one["pane_end"]) == (start, end)), None)
        firings = self._firings(start, end)
        last = end if self._port.is_by_row else end - 1
        refused = [one for one in self.refused if one.at is not None and start <= one.at <= last]
        sources, follows, ahead = self._sources
        closes = self._closes(end)
        return PaneFacts(
            start=start,
            end=last + 1,
            ready_at=closes if self._port.fields.get("emit") == "on_close" else last + 1,
            closes_at=closes,
            watermark=self.record.watermark,
            held=held,
            firings=firings,
            refused=refused,
            unplaced=[one for one in self.refused if one.at is None],
            settle=self._settle,
            missed=self._missed_of(closes, end),
            watermarks=self._watermarks,
            sources=sources,
            follows=follows,
            ahead=ahead,
            is_flushed=self.record.flushed,
            nearest=() if held or firings or refused else self.nearest(start),
        )

    def refused_panes(self) -> list[tuple[int, int]]:
        """Return the panes of which rows were refused; of windows with bounds that need no rows."""
        if self._port.panes is None:
            return []
        return [pane for one in self.refused if one.at is not None for pane in self.panes_at(one.at)]

    def panes_at(self, at: int) -> list[tuple[int, int]]:
        """Return the bounds of the panes that have an instant, the oldest first; that which ends at a row first."""
        if self._port.is_session:
            bounds = [(one["pane_start"], one["pane_end"]) for one in self.held]
            return [one for one in bounds if one[0] <= at < one[1]]
        if self._port.is_by_row:
            own = (at - by_row_of(self._port.fields).difference_us, at)
            bounds = sorted((one["pane_start"], one["pane_end"]) for one in self.held)
            return [own, *(one for one in bounds if one[0] <= at <= one[1] and one != own)]
        geometry = self._geometry
        slices = geometry.slices(np.array([at], dtype=np.int64))
        panes = range(int(geometry.oldest_pane(slices)[0]), int(geometry.newest_pane(slices)[0]) + 1)
        return [(geometry.start(pane), geometry.end(pane)) for pane in panes]

    def nearest(self, start: int) -> list[str]:
        """Return what there is of the partition instead; and which partitions are called alike."""
        known = self.known_panes()
        others = [one for one in self.refused if one.at is not None]
        lines = [*nearest_panes(known, start), *(f"elsewhere {one}" for one in refusal_lines(others))]
        names = self._port.log_keys
        if not names:
            return lines
        own = tuple(self._key.values[name].as_py() for name in names)
        if known or self.refused:
            found = alike_but_for_case(own, self._logged_keys)
            return [*lines, *(f"there is another partition, {key_text(names, one)}" for one in found)]
        found = alike(own, self._logged_keys) or alike(own, self._open_keys())
        listed = ", ".join(key_text(names, one) for one in found)
        called = f"; partitions that are called alike: {listed}" if found else ""
        return [f"no result of this partition is in the log{called}"]

    def known_panes(self) -> dict[tuple[int, int], str]:
        """Return the panes of the partition that have fired, or are open: the bounds -> which of both."""
        opened = {(one["pane_start"], one["pane_end"]): _STATES[one["state"]] for one in self.held}
        return dict.fromkeys(self._fired_panes(), "closed") | opened

    def _fired_panes(self) -> list[tuple[int, int]]:
        """Return the bounds of the panes of the partition in the log."""
        if self._log is None:
            return []
        own = {name: self._key.values[name] for name in self._port.log_keys}
        if (plain := self._plain_log) is not None:
            times = plain.filter(is_of(plain, own)).select([*self._bounds]).group_by([*self._bounds]).aggregate([])
            edges = (_us_of(times.column(name)) for name in self._bounds)
            return [*zip(*edges, strict=True)]
        from panekeeper.diagnostics.inspector import by_spark

        return by_spark.fired_panes(self._state, self._log, self._key, self._bounds, most=_MOST_KEYS)

    @cached_property
    def _logged_keys(self) -> list[tuple[Any, ...]]:
        """The partitions that have results in the log."""
        names = [*self._port.log_keys]
        if self._log is None:
            return []
        if (plain := self._plain_log) is not None:
            return _keys_of(plain, names)
        from panekeeper.diagnostics.inspector import by_spark

        return by_spark.logged_keys(self._state, self._log, names, most=_MOST_KEYS)

    @cached_property
    def _plain_log(self) -> pa.Table | None:
        assert self._log is not None
        return read_plain_table(self._log, {}, [*self._port.log_keys, *self._bounds])

    def _open_keys(self) -> list[tuple[Any, ...]]:
        """Return the partitions that are in the state, of all key groups."""
        names, found = [*self._port.log_keys], open_rows(self._state, [self._port], None)
        if not isinstance(found, pa.Table):
            from panekeeper.diagnostics.inspector import by_spark

            return by_spark.keys_of(found, names, most=_MOST_KEYS)
        return _keys_of(found, names)

    @property
    def _bounds(self) -> tuple[str, str]:
        """The columns of the log with the bounds of a pane."""
        return ("session_start", "session_end") if self._port.is_session else ("pane_start", "pane_end")

    @property
    def _settle(self) -> str | None:
        """The command that settles rows of the window; None: they cannot be."""
        if not self._port.can_settle:
            return None
        place = shlex.quote(self._state.checkpoint) if self._state.checkpoint else "CHECKPOINT"
        window = f" --window {self._port.window}" if self._port.window else ""
        return f"panekeeper settle {place} --job JOB.PY{window}"

    def _closes(self, end: int) -> int:
        if self._port.panes is None:
            return end + int(self._port.fields["discard_age_us"]) + self._port.is_by_row
        geometry = self._geometry
        return geometry.closing_watermark(geometry.last_ending_by(end))

    @property
    def _log(self) -> str | None:
        return self._state.tables.get(role_of("log", self._port.window))

    def _firings(self, start: int, end: int) -> Sequence[Firing]:
        path = self._log
        if path is None:
            return ()
        first, last = self._bounds
        rows = self._rows_of_pane(path, {first: start, last: end})
        batches = self._batches_of({row["file"] for row in rows})
        found = {
            row["refinement"]: Firing(
                refinement=row["refinement"],
                reason=row["reason"],
                is_final=bool(row["is_final"]),
                batch=batches.get(row["file"]),
            )
            for row in rows
        }
        return [one for _, one in sorted(found.items()) if one.batch is None or one.batch <= self._state.batch]

    def _rows_of_pane(self, path: str, pane: Mapping[str, int]) -> list[dict[str, Any]]:
        """Return refinement, reason, is_final and file of each firing of a pane of the partition."""
        shown, several = ["refinement", "reason", "is_final"], self._state.has_ports
        if (plain := read_plain_table(path, pane)) is not None:
            plain = plain.filter(is_of(plain, {name: self._key.values[name] for name in self._port.log_keys}))
            others = {"op": 1} | ({PORT: self._port.number} if several else {})
            for name, value in others.items():
                if name in plain.column_names:
                    plain = plain.filter(pc.equal(plain.column(name), value))
            found: list[dict[str, Any]] = plain.select([*shown, "file"]).to_pylist()
            return found
        from panekeeper.diagnostics.inspector import by_spark

        return by_spark.firings(self._state, path, self._key, pane, shown, port=self._port.number if several else None)

    def _batches_of(self, files: set[str]) -> dict[str, int]:
        """Return file of the log -> the batch that has written it, of those whose commits are kept."""
        found: dict[str, int] = {}
        state, role = self._state, role_of("log", self._port.window)
        for _, batch, added in commits_of_batches(state.files, state.record, role):
            if found.keys() >= files:
                break
            names = [name.rpartition("/")[2] for name in added]
            found |= {name: batch for name in names if name in files}
        return found

    @cached_property
    def refused(self) -> list[Refusal]:
        """Return what the quarantine has of the partition, in the order of batches."""
        found = refused_of(self._state, self._port, self._key)
        return with_lateness(found, self._watermarks, follows=self._sources[1]) if found else found

    @cached_property
    def _watermarks(self) -> dict[int, int]:
        return {one: NO_WATERMARK if us is None else us for one, us, _ in self._metrics}

    @cached_property
    def _missed(self) -> dict[int, int]:
        """Batch -> how often a row of the job came too late for one of its panes."""
        return {one: missed or 0 for one, _, missed in self._metrics}

    @cached_property
    def _metrics(self) -> list[tuple[int, int | None, int | None]]:
        """Batch, watermark, and missed panes, of the batches until the one that is looked at."""
        path, name = self._state.tables.get("metrics"), "missed_panes"
        if path is None:
            return []
        if (plain := read_plain_table(path, {})) is not None:
            batches, times = plain.column("batch").to_pylist(), plain.column("watermark").cast(pa.int64()).to_pylist()
            has_missed = name in plain.column_names  # a table of an earlier version lacks it
            missed = plain.column(name).to_pylist() if has_missed else [None] * plain.num_rows
            return [one for one in zip(batches, times, missed, strict=True) if one[0] <= self._state.batch]
        from panekeeper.diagnostics.inspector import by_spark

        return by_spark.metrics(self._state, path, name)

    @cached_property
    def _sources(self) -> tuple[list[SourceTime], bool, int | None]:
        """Return how far event time has come; whether batches follow Spark's watermark; and that of the next batch."""
        delays, record = read_ports(self._state.files), horizon(self.store)
        if record is None:
            ahead = _next_watermark(self._state)
            delay = delays[0].watermark_us if delays else None
            reached = ahead if ahead is not None else self.record.watermark
            if reached == NO_WATERMARK:
                return [], True, ahead
            return [SourceTime(name="the stream", reached=reached, delay=delay)], True, ahead
        found = []
        known = {*record.reached, *((port.number, "") for port in self._state.ports if not port.is_arrival)}
        with_parts = {port for port, part in known if part}
        for port, part in sorted(known):
            if not part and port in with_parts:
                continue
            own = delays[port] if port < len(delays) else None
            seen = max(record.seen.get((port, part), 0), record.since)
            found.append(
                SourceTime(
                    name=f"port {port}{f', partition {part}' if part else ''}",
                    reached=record.reached.get((port, part)),
                    delay=None if own is None else own.watermark_us,
                    silent=record.now - seen if seen else None,
                    idle_after=None if own is None else own.idle_after_us,
                )
            )
        return found, False, None


def _next_watermark(state: Opened) -> int | None:
    """Return the watermark that Spark has for the batch after the one that is looked at, us; None for none."""
    for line in log_lines(state.files, f"{COMMITS_FOLDER}/{state.batch}"):
        if isinstance(line, dict) and (ms := int(line.get("nextBatchWatermarkMs") or 0)):
            return ms * 1000
    return None


def _bounds(port: RecordedPort, partition: _Partition, pane: str | datetime) -> tuple[int, int]:
    """Return the bounds of the pane, or session, that starts when it is said. Raises `DeclarationError`."""
    if isinstance(pane, str) and (clock := _clock_of(pane)) is not None:
        return _bounds_by_clock(partition, pane, clock)
    first, slash, last = pane.partition("/") if isinstance(pane, str) else (pane, "", "")
    at = time_of(first, "pane")
    if port.is_by_row:
        return at, at + by_row_of(port.fields).difference_us
    if port.panes is None:
        of_sessions = [(one["pane_start"], one["pane_end"]) for one in partition.held]
        found = [one for one in of_sessions if one[0] <= at < one[1]]
        if slash:
            found = [(at, time_of(last, "pane"))]
        return found[0] if found else (at, at + int(port.fields.get("gap_us") or 0))
    there = partition.panes_at(at)
    found = [one for one in there if one[0] == at and (not slash or one[1] == time_of(last, "pane"))]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(pane_text(*one) for one in found[:_NEAR])
        raise DeclarationError(f"pane is {pane}, and {len(found)} panes begin then; give one as START/END, as {listed}")
    if len(there) == 1 and not slash:
        return there[0]
    listed = ", ".join(pane_text(*one) for one in there[:_NEAR]) or "none"
    raise DeclarationError(f"pane is {pane}, and no pane begins then; those that have this instant: {listed}")


def _clock_of(text: str) -> int | None:
    """Return a time of day in us; None for a text that has a day, too, or is no time."""
    try:
        found = time_of_day.fromisoformat(text)
    except ValueError:
        return None
    return ((found.hour * 60 + found.minute) * 60 + found.second) * 1_000_000 + found.microsecond


def _bounds_by_clock(partition: _Partition, pane: str, clock: int) -> tuple[int, int]:
    known = partition.known_panes()
    found = panes_by_clock([*known, *partition.refused_panes()], clock)
    if len(found) == 1:
        return found[0]
    listed = f"of those that are known {len(found)} fit, as {', '.join(pane_text(*one) for one in found[:_NEAR])}"
    why_not = listed if found else "no pane that is known has it"
    raise DeclarationError(f"pane is {pane}, a time of day, and {why_not}; give the day, too, as 2013-03-08T{pane}")


def panes_by_clock(known: Iterable[tuple[int, int]], clock: int) -> list[tuple[int, int]]:
    """Return which panes begin at a time of day, us; or, if none does, which have it.

    >>> panes_by_clock([(0, 3600), (3600, 7200)], 3600), panes_by_clock([(0, 3600), (3600, 7200)], 60)
    ([(3600, 7200)], [(0, 3600)])
    """
    ordered = sorted({*known})
    return [one for one in ordered if one[0] % _DAY_US == clock] or [
        (start, end) for start, end in ordered if (clock - start) % _DAY_US < end - start
    ]


def time_of(value: Any, what: str) -> int:
    """Return a time in us since the epoch; one without a zone is in UTC. Raises `DeclarationError`.

    >>> time_of("1970-01-01T00:00:01", "pane")
    1000000
    """
    try:
        return time_us(datetime.fromisoformat(value) if isinstance(value, str) else value, what)
    except (TypeError, ValueError, AttributeError) as error:
        raise DeclarationError(f"{what} is {value!r}, which is no time; write one as 2013-03-08T10:00") from error


def read_row(text: str) -> dict[str, Any]:
    """Return a row that is written as JSON. Raises `DeclarationError`."""
    try:
        row = json.loads(text)
    except ValueError as error:
        raise DeclarationError(f"row is {text!r}, which is no JSON ({error})") from error
    if not isinstance(row, dict):
        raise DeclarationError(f'row is {text!r}; write an object, as \'{{"carrier": "UA", ...}}\'')
    return row


def _us_of(times: pa.ChunkedArray) -> list[int]:
    found: list[int] = times.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    return found


def _keys_of(rows: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    found = rows.select(names).group_by(names).aggregate([]).slice(0, _MOST_KEYS)
    return [*zip(*(found.column(name).to_pylist() for name in names), strict=True)]


def key_text(names: Sequence[str], values: Sequence[Any]) -> str:
    """Return a partition as messages show it."""
    return " ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
