"""Why did a pane fire, or why is there no result? The facts of one partition, gathered for `core.inspection.reasons`.

What is stored of the partition's key group is read; of the tables, the rows of the partition, and the watermarks of
batches. Which batch wrote a row of the log is in the commits of the table, as long as these are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql.pandas.types import from_arrow_type

from panekeeper.framework.core.inspection.kept_rows import by_row_of
from panekeeper.framework.core.inspection.one_key import is_of
from panekeeper.framework.core.inspection.open_work import horizon, open_work
from panekeeper.framework.core.inspection.partners import RowFacts, equal_types, row_facts, why_joined, why_side
from panekeeper.framework.core.inspection.reasons import (
    Answer,
    Firing,
    PaneFacts,
    Refusal,
    SourceTime,
    Verdict,
    why_partition,
)
from panekeeper.framework.core.inspection.reasons import why as why_of
from panekeeper.framework.core.job_spec import PORT, WINDOW
from panekeeper.framework.core.panes.geometry import Geometry
from panekeeper.framework.declarations.durations import to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.engine.session.columns import quoted
from panekeeper.recovery.inspector.opened import Opened, opened
from panekeeper.recovery.inspector.panes import Key, key_as_stored, stored_group, typed_key
from panekeeper.recovery.inspector.plain_tables import read_plain_table
from panekeeper.recovery.inspector.written import commits_of_batches
from panekeeper.recovery.storage.locations import Location
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.clock import format_time
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER
from panekeeper.state.checkpoint.job_record import read_ports
from panekeeper.state.records import NO_WATERMARK, ByRowRecord, IntervalRecord, JoinRecord, SessionRecord
from panekeeper.state.spark_logs import log_lines
from panekeeper.state.table_roles import role_of

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from panekeeper.framework.core.inspection.recorded import RecordedPort
    from panekeeper.state.store import MemoryStore

_NEAR = 3
_MOST_KEYS = 10_000
_MOST_PANES = 20
"""Of more panes that a row is of the answers are left out."""
_MOST_ROWS = 50_000
"""Of more rows in the quarantine Spark looks for those of a partition."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    """Answer by what is stored and recorded, as `panekeeper.why` does without a job (`recovery/replay/moved_by.py`)."""
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
    refused = [one for one in partition.refused if one.at == at]
    bounds = partition.panes_at(at)
    if refused and refused[0].reason == "LATE":
        start, end = bounds[-1] if bounds else (at, at)
        facts = replace(partition.facts(start, end), held=None, firings=(), refused=refused)
        if port.is_by_row:  # it may be in windows that end after it
            facts = replace(facts, closes_at=at + by_row_of(port.fields).reach_us)
        return why_of(facts)
    if not bounds:
        gap = "no open session has it" if port.is_session else "it lies between two panes, and in none"
        return Answer(verdict=Verdict.NEVER, reasons=(gap, *partition.nearest(at)))
    found = [(one, partition.why(*one)) for one in bounds[:_MOST_PANES]]
    (first, answer), others = found[0], found[1:]
    more = [f"it is also of pane {_pane_text(*one)}: {each.verdict.value}" for one, each in others]
    more += [f"and of {len(bounds) - len(found)} more"] if len(bounds) > len(found) else []
    return replace(answer, reasons=(f"its pane is {_pane_text(*first)}", *answer.reasons, *more))


class _Partition:
    """One partition: what is stored of it, and what the tables have of it."""

    def __init__(self, state: Opened, port: RecordedPort, key: Key) -> None:
        missing = [name for name in port.log_keys if name not in key]
        if missing:
            raise DeclarationError(f"key lacks {', '.join(missing)}; give a value for each partition column")
        self._state, self._port = state, port
        self._key = typed_key(state, port, key)
        assert self._key.in_group is not None  # the key is whole
        ports = state.ports if port.is_within else [port]
        self.store: MemoryStore = stored_group(state, ports, self._key.in_group)
        group = open_work(port, self.store)
        values = dict(zip(group.column_names, (self._key.values[name] for name in port.log_keys), strict=False))
        self.held: list[dict[str, Any]] = group.filter(is_of(group, values)).to_pylist()

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
            return why_side(held, self._sources[0])
        return why_partition(self._port, held)

    def row_facts(self, row: Mapping[str, Any], at: int) -> RowFacts:
        """Return what is known of a row of an interval join, by its columns that must be equal."""
        port, state = self._port, self._state
        equal = port.fields["equal"]
        kinds = equal_types(port, state.ports, self.store)
        missing = [name for name in equal[port.number] if name not in row]
        if missing:
            raise DeclarationError(f"row lacks {', '.join(map(repr, missing))}, by which its partners are found")
        own = {name: row[name] for name in kinds}
        values = key_as_stored(state.spark, state.record.group_ids, kinds, own).values
        refused = [one for one in self.refused if one.at == at]
        return row_facts(port, state.ports, self.store, values, at, refused=refused, sources=self._sources[0])

    def why(self, start: int, end: int) -> Answer:
        """Return what has become of the pane with these bounds."""
        return why_of(self.facts(start, end))

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
            watermarks=self._watermarks,
            sources=sources,
            follows=follows,
            ahead=ahead,
            is_flushed=self.record.flushed,
            nearest=() if held or firings or refused else self.nearest(start),
        )

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
        """Return what there is of the partition instead; or which partitions are called alike."""
        near = sorted(self.held, key=lambda one: abs(one["pane_start"] - start))[:_NEAR]
        if near:
            listed = ", ".join(_pane_text(one["pane_start"], one["pane_end"]) for one in near)
            return [f"open panes of this partition that are nearest: {listed}"]
        names = self._port.log_keys
        if not names or self._log is None:
            return []
        log = self._state.spark.read.format("delta").load(self._log)
        known = log.select(*map(quoted, names)).distinct().limit(_MOST_KEYS).collect()
        texts = {_key_text(names, row) for row in known}
        own = _key_text(names, [self._key.values[name].as_py() for name in names])
        if own in texts:
            return ["this partition has results of other panes"]
        alike = get_close_matches(own, texts, n=_NEAR, cutoff=0.5)
        return (
            [f"no result of this partition is in the log; partitions that are called alike: {', '.join(alike)}"]
            if alike
            else ["no result of this partition is in the log"]
        )

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
        first, last = ("session_start", "session_end") if self._port.is_session else ("pane_start", "pane_end")
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
        log = self._state.spark.read.format("delta").load(path).where(self._is_ours())
        if "op" in log.columns:
            log = log.where("op = 1")
        if several and "port" in log.columns:
            log = log.where(F.col("port") == self._port.number)
        for name, us in pane.items():
            log = log.where(_us(name) == us)
        rows = log.select(*shown, F.col("_metadata.file_name").alias("file")).distinct().collect()
        return [row.asDict() | {"file": unquote(row.file)} for row in rows]

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
        """Return what the quarantine has of the partition."""
        path = self._state.tables.get("quarantine")
        if path is None:
            return []
        if (plain := read_plain_table(path, {})) is not None and (found := self._refused_in(plain)) is not None:
            return found
        table = self._state.spark.read.format("delta").load(path).where(F.col("batch") <= self._state.batch)
        if self._port.window:
            table = table.where(F.col(WINDOW).isNull() | (F.col(WINDOW) == self._port.window))
        if self._state.has_ports:
            table = table.where(F.col(PORT) == self._port.number)
        for name, kind, log_name in zip(self._port.keys.names, self._port.keys.types, self._port.log_keys, strict=True):
            text = F.get_json_object("row", f"$['{name}']")
            table = table.where(text.try_cast(from_arrow_type(kind)).eqNullSafe(self._key.columns[log_name]))
        begins = [
            F.get_json_object("row", f"$.{name}").try_cast("timestamp") for name in ("pane_start", "session_start")
        ]
        at = F.coalesce(_us("event_time"), *(F.unix_micros(one) for one in begins))  # of a row, or of a firing
        rows = table.select("reason", "detail", at.alias("at"), "batch").orderBy("batch").collect()
        return [Refusal(reason=one.reason, detail=one.detail or "", at=one.at, batch=one.batch) for one in rows]

    def _refused_in(self, table: pa.Table) -> list[Refusal] | None:
        """Return what rows of the quarantine are of the partition; None if Spark must say which text is which value."""
        kinds = self._port.keys.types
        if table.num_rows > _MOST_ROWS or not all(
            pa.types.is_string(kind) or pa.types.is_integer(kind) for kind in kinds
        ):
            return None
        wanted = [self._key.values[name].as_py() for name in self._port.log_keys]
        found = []
        for one in table.filter(pc.less_equal(table.column("batch"), self._state.batch)).sort_by("batch").to_pylist():
            row = json.loads(one["row"])
            if self._port.window and one[WINDOW] not in (None, self._port.window):
                continue
            if self._state.has_ports and one[PORT] != self._port.number:
                continue
            if [row.get(name) for name in self._port.keys.names] != wanted:
                continue
            if one["event_time"] is None and not {"pane_start", "session_start"}.isdisjoint(row):
                return None
            us = None if one["event_time"] is None else to_us(_in_utc(one["event_time"]) - _EPOCH, "event time")
            found.append(Refusal(reason=one["reason"], detail=one["detail"] or "", at=us, batch=one["batch"]))
        return found

    def _is_ours(self) -> Column:
        """Return the condition for a row of the log to be of the partition."""
        is_ours = F.lit(True)
        for name, value in self._key.columns.items():
            is_ours &= F.col(quoted(name)).eqNullSafe(value)
        return is_ours

    @cached_property
    def _watermarks(self) -> dict[int, int]:
        path = self._state.tables.get("metrics")
        if path is None:
            return {}
        if (plain := read_plain_table(path, {})) is not None:
            times = plain.column("watermark").cast(pa.int64()).to_pylist()
            pairs = zip(plain.column("batch").to_pylist(), times, strict=True)
            return {one: NO_WATERMARK if us is None else us for one, us in pairs if one <= self._state.batch}
        metrics = self._state.spark.read.format("delta").load(path).where(F.col("batch") <= self._state.batch)
        rows = metrics.select("batch", F.unix_micros("watermark").alias("us")).collect()
        return {row.batch: NO_WATERMARK if row.us is None else row.us for row in rows}

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
                    silent=record.now - seen if record.now and seen else None,
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
        listed = ", ".join(_pane_text(*one) for one in found[:_NEAR])
        raise DeclarationError(f"pane is {pane}, and {len(found)} panes begin then; give one as START/END, as {listed}")
    listed = ", ".join(_pane_text(*one) for one in there[:_NEAR]) or "none"
    raise DeclarationError(f"pane is {pane}, and no pane begins then; those that have this instant: {listed}")


def time_of(value: Any, what: str) -> int:
    """Return a time in us since the epoch; one without a zone is in UTC. Raises `DeclarationError`.

    >>> time_of("1970-01-01T00:00:01", "pane")
    1000000
    """
    try:
        return to_us(_in_utc(datetime.fromisoformat(value) if isinstance(value, str) else value) - _EPOCH, what)
    except (TypeError, ValueError, AttributeError) as error:
        raise DeclarationError(f"{what} is {value!r}, which is no time; write one as 2013-03-08T10:00") from error


def _in_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def read_row(text: str) -> dict[str, Any]:
    """Return a row that is written as JSON. Raises `DeclarationError`."""
    try:
        row = json.loads(text)
    except ValueError as error:
        raise DeclarationError(f"row is {text!r}, which is no JSON ({error})") from error
    if not isinstance(row, dict):
        raise DeclarationError(f'row is {text!r}; write an object, as \'{{"carrier": "UA", ...}}\'')
    return row


def _us(name: str) -> Column:
    """Return a time column in us since the epoch, with or without a zone."""
    return F.expr(f"unix_micros(cast({quoted(name)} as timestamp))")


def _pane_text(start: int, end: int) -> str:
    return f"{format_time(start)}/{format_time(end)}"


def _key_text(names: Sequence[str], values: Sequence[Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
