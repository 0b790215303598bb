"""What is known of one partition: in the state, and in the tables? The facts from which answers follow.

What is stored of the partition's key group is read; of the tables, the rows of the partition, and the watermarks of
batches. Which batch wrote a row of the log is in the commits of the table, as long as these are kept.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from panekeeper.diagnostics.inspector.opened import Opened
from panekeeper.diagnostics.inspector.panes import open_rows, stored_group
from panekeeper.diagnostics.inspector.quarantined import refused_keys, refused_of
from panekeeper.diagnostics.inspector.table_changes import NOT_VALUES
from panekeeper.diagnostics.keys import Key, TypedKey, key_as_stored
from panekeeper.diagnostics.tables.rows import read_plain_table, us_of
from panekeeper.diagnostics.tables.written import commits_of_batches, settled_files
from panekeeper.framework.core.inspection.nearest import alike, alike_but_for_case, as_null, nearest_panes, pane_text
from panekeeper.framework.core.inspection.one_key import is_of
from panekeeper.framework.core.inspection.open_work import horizon, open_work
from panekeeper.framework.core.inspection.pane_times import panes_with, times_of
from panekeeper.framework.core.inspection.panes import LATE, OPEN, OVERDUE
from panekeeper.framework.core.inspection.partners import RowFacts, equal_types, row_facts, why_side
from panekeeper.framework.core.inspection.reasons import (
    Answer,
    Firing,
    Mover,
    PaneFacts,
    Passed,
    SourceTime,
    passed_by,
    why_pane,
    why_partition,
)
from panekeeper.framework.core.inspection.refusals import Refusal, missed_between, refusal_lines, with_lateness
from panekeeper.framework.core.job_spec import PORT
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.windows import SlidingByRow
from panekeeper.recovery.rows_as_json import as_fields
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER
from panekeeper.state.checkpoint.job_record import read_ports
from panekeeper.state.records import NO_WATERMARK, ByRowRecord, IntervalRecord, JoinRecord, SessionRecord
from panekeeper.state.spark_logs import log_lines
from panekeeper.state.table_roles import role_of

if TYPE_CHECKING:
    from panekeeper.framework.core.inspection.recorded import RecordedPort
    from panekeeper.state.store import MemoryStore

FindMover = Callable[[Passed], Mover]
"""Finds the row that has moved the watermark past what a pane waited for."""
_MOST_KEYS = 10_000
_NAMED = 5
"""Number of the partitions that are named where none is called alike."""
MOST_PANES = 20
"""Of more panes that a row is of the answers are left out."""
_OF_FIRING = ("refinement", "reason", "is_final")
_PLACES = ("pane_start", "pane_end", "session_start", "session_end")
_STATES = {OPEN: "not fired yet", LATE: "fired", OVERDUE: "fires next"}


def read_partition(state: Opened, port: RecordedPort, key: Key) -> Partition:
    """Read what is stored of the key group of a partition. Raises `DeclarationError` for what is no key of the port."""
    typed = state.typed_key(port, key)
    typed.require_whole()
    return Partition(state, port, typed, stored_group(state, state.ports if port.is_within else [port], typed))


class Partition:
    """One partition: what is stored of it, and what the tables have of it, which is read as it is asked for."""

    def __init__(self, state: Opened, port: RecordedPort, key: TypedKey, store: MemoryStore) -> None:
        """Take what is stored of its key group."""
        self._state, self.port, self._key = state, port, key
        self.store = store
        values = [key.values[name] for name in port.log_keys]
        self.stored_key = dict(zip(port.keys.names, values, strict=True))
        """Its values by the names of the columns in the state."""
        group = open_work(port, store)
        own = dict(zip(group.column_names, values, strict=False))
        self.held: list[dict[str, Any]] = group.filter(is_of(group, own)).to_pylist()

    @cached_property
    def record(self) -> IntervalRecord | SessionRecord | ByRowRecord | JoinRecord:
        """The header of the key group: the watermark that it has acted on, whether it was flushed."""
        if self.port.is_within:
            return JoinRecord.decode(self.store.read_header())
        header = self.port.own(self.store).read_header()
        if self.port.is_by_row:
            return ByRowRecord.decode(header)
        return SessionRecord.decode(header) if self.port.is_session else IntervalRecord.decode(header)

    def why_partition(self) -> Answer:
        """Return what the partition has, where there are no panes, and when it fires."""
        held = self.held[0] if self.held else None
        if self.port.is_within:
            return why_side(held, self._sources[0], self.refused)
        return why_partition(self.port, held, self.refused)

    def row_facts(self, row: Mapping[str, Any], at: int) -> RowFacts:
        """Return what is known of a row of an interval join, by its columns that must be equal."""
        port, state = self.port, self._state
        equal = port.fields["equal"]
        kinds = equal_types(port, state.ports, self.store)
        missing = [name for name in equal[port.number] if name not in row]
        if missing:
            raise DeclarationError(f"row lacks {', '.join(map(repr, missing))}, by which its partners are found")
        own = {name: row[name] for name in kinds}
        values = key_as_stored(state.session, state.record.group_ids, kinds, own).values
        refused = [refusal for refusal in self.refused if refusal.at == at]
        sources, now = self._sources[0], self._watermark
        return row_facts(port, state.ports, self.store, values, at, refused=refused, sources=sources, watermark=now)

    def why(self, start: int, end: int, find_mover: FindMover | None = None) -> Answer:
        """Return what has become of the pane with these bounds; `find_mover` finds what has moved the watermark."""
        facts = self.facts(start, end)
        if find_mover is not None and (passed := passed_by(facts)) is not None:
            facts = replace(facts, mover=find_mover(passed))
        return why_pane(facts)

    def why_refused(self, at: int, bounds: Sequence[tuple[int, int]], refused: Sequence[Refusal]) -> Answer:
        """Return what has become of a row of this time that was refused: of the last of its panes.

        Or of the last of those in which a settlement has put it.
        """
        for pane in reversed(bounds[-MOST_PANES:] if self.port.can_settle else ()):
            facts = self.facts(*pane)
            if facts.settlement is not None and facts.settlement.may_have(refused):
                settled = why_pane(replace(facts, firings=facts.firings[-1:], refused=refused, unplaced=()))
                return replace(settled, reasons=(f"its pane is {pane_text(*pane)}", *settled.reasons))
        start, end = bounds[-1] if bounds else (at, at)
        facts = replace(self.facts(start, end), held=None, firings=(), refused=refused, unplaced=())
        if isinstance(self.port.declared, SlidingByRow):  # it may be in windows that end after it
            facts = replace(facts, closes_at=at + self.port.declared.reach_us)
        return why_pane(facts)

    def _missed_of(self, closes: int, end: int) -> dict[int, int]:
        """Return batch -> its missed panes, of those in which a pane was closed and a later one of its rows was not."""
        if self.port.panes is None or not any(self._missed.values()):
            return {}
        until = max(times_of(self.port, *bounds).closes for bounds in self.panes_at(end - 1))
        return missed_between(self._missed, self._watermarks, closes, until, follows=self._sources[1])

    def is_held(self, start: int, end: int) -> bool:
        """Return whether the state has something of the pane."""
        return any((pane["pane_start"], pane["pane_end"]) == (start, end) for pane in self.held)

    def facts(self, start: int, end: int) -> PaneFacts:
        """Return what is known of the pane with these bounds."""
        held = next((pane for pane in self.held if (pane["pane_start"], pane["pane_end"]) == (start, end)), None)
        firings, times = self._firings(start, end), times_of(self.port, start, end)
        refused = [refusal for refusal in self.refused if refusal.at is not None and start <= refusal.at < times.after]
        sources, follows, ahead = self._sources
        return PaneFacts(
            start=start,
            end=times.after,
            ready_at=times.ready,
            closes_at=times.closes,
            watermark=self._watermark,
            held=held,
            firings=firings,
            refused=refused,
            unplaced=[refusal for refusal in self.refused if refusal.at is None],
            settle=self._settle,
            missed=self._missed_of(times.closes, end),
            watermarks=self._watermarks,
            sources=sources,
            follows=follows,
            ahead=ahead,
            is_flushed=self.record.flushed,
            nearest=() if held or firings or refused else self.nearest(start),
        )

    def refused_panes(self) -> list[tuple[int, int]]:
        """Return the panes of which rows were refused; of windows with bounds that need no rows."""
        if self.port.panes is None:
            return []
        return [pane for refusal in self.refused if refusal.at is not None for pane in self.panes_at(refusal.at)]

    def panes_at(self, at: int) -> list[tuple[int, int]]:
        """Return the bounds of the panes that have an instant, the oldest first; that which ends at a row first."""
        return panes_with(self.port, at, [(pane["pane_start"], pane["pane_end"]) for pane in self.held])

    def nearest(self, start: int) -> list[str]:
        """Return what there is of the partition instead; and which partitions are called alike."""
        known = self.known_panes()
        others = [refusal for refusal in self.refused if refusal.at is not None]
        lines = [*nearest_panes(known, start), *(f"elsewhere {line}" for line in refusal_lines(others))]
        if not self.port.log_keys:
            return lines
        if self.is_known:
            return [*lines, *self.meant_instead()]
        return ["; ".join(["no result of this partition is in the log", *self.meant_instead()])]

    def meant_instead(self) -> list[str]:
        """Return which other partitions may be meant: that of a null, those that are called alike, or else the first.

        Of a partition that is known, only those that differ in upper and lower case, or spaces.
        """
        names = self.port.log_keys
        own = tuple(self._key.values[name].as_py() for name in names)
        tables = [*dict.fromkeys([*self._logged_keys, *self._refused_keys])]
        if (with_null := as_null(own)) != own and with_null in (tables if with_null in tables else self._open_keys()):
            nulls = [name for name, value in zip(names, with_null, strict=True) if value is None]
            asked = " ".join(f"--null {name}" for name in nulls)
            return [f"there is a partition with a null in {', '.join(nulls)}; ask for it by {asked}, in Python by None"]
        if self.is_known:
            keys = alike_but_for_case(own, tables)
            return [f"there is another partition, {key_text(names, key)}" for key in keys]
        keys = alike(own, tables)
        if not keys:
            tables = [*dict.fromkeys([*tables, *self._open_keys()])]
            keys = alike(own, tables)
        if keys:
            return [f"partitions that are called alike: {', '.join(key_text(names, key) for key in keys)}"]
        listed = sorted(key_text(names, key) for key in tables)
        more = f" and {len(listed) - _NAMED:,} more" if len(listed) > _NAMED else ""
        return [f"partitions that there are: {', '.join(listed[:_NAMED])}{more}"] if listed else []

    @property
    def is_known(self) -> bool:
        """Whether the state, the log or the quarantine has anything of the partition."""
        return bool(self.known_panes() or self.refused)

    def known_panes(self) -> dict[tuple[int, int], str]:
        """Return the panes of the partition that have fired, or are open: the bounds -> which of both."""
        opened = {(pane["pane_start"], pane["pane_end"]): _STATES[pane["state"]] for pane in self.held}
        return dict.fromkeys(self._fired_panes, "closed") | opened

    @cached_property
    def _fired_panes(self) -> list[tuple[int, int]]:
        """The bounds of the panes of the partition in the log."""
        if self._log is None:
            return []
        own = {name: self._key.values[name] for name in self.port.log_keys}
        if (plain := self._plain_log) is not None:
            times = plain.filter(is_of(plain, own)).select([*self._bounds]).group_by([*self._bounds]).aggregate([])
            edges = (us_of(times.column(name)).to_pylist() for name in self._bounds)
            return [*zip(*edges, strict=True)]
        from panekeeper.diagnostics.inspector import by_spark

        return by_spark.fired_panes(self._state, self._log, self._key, self._bounds, most=_MOST_KEYS)

    @cached_property
    def _logged_keys(self) -> list[tuple[Any, ...]]:
        """The partitions that have results in the log."""
        names = [*self.port.log_keys]
        if self._log is None:
            return []
        if (plain := self._plain_log) is not None:
            return _keys_of(plain, names)
        from panekeeper.diagnostics.inspector import by_spark

        return by_spark.logged_keys(self._state, self._log, names, most=_MOST_KEYS)

    @cached_property
    def _refused_keys(self) -> list[tuple[Any, ...]]:
        """The partitions of which rows are in the quarantine."""
        return refused_keys(self._state, self.port)

    @cached_property
    def _plain_log(self) -> pa.Table | None:
        assert self._log is not None
        return read_plain_table(self._log, {}, [*self.port.log_keys, *self._bounds])

    def _open_keys(self) -> list[tuple[Any, ...]]:
        """Return the partitions that are in the state, of all key groups."""
        names, rows = [*self.port.log_keys], open_rows(self._state, [self.port], None)
        if not isinstance(rows, pa.Table):
            from panekeeper.diagnostics.inspector import by_spark

            return by_spark.keys_of(rows, names, most=_MOST_KEYS)
        return _keys_of(rows, names)

    @property
    def _bounds(self) -> tuple[str, str]:
        """The columns of the log with the bounds of a pane."""
        return ("session_start", "session_end") if self.port.is_session else ("pane_start", "pane_end")

    @property
    def _settle(self) -> str | None:
        """The command that settles rows of the window; None: they cannot be."""
        if not self.port.can_settle:
            return None
        place = shlex.quote(self._state.checkpoint) if self._state.checkpoint else "CHECKPOINT"
        window = f" --window {self.port.window}" if self.port.window else ""
        return f"panekeeper settle {place} --job JOB.PY{window}"

    @property
    def _log(self) -> str | None:
        return self._state.tables.get(role_of("log", self.port.window))

    def _firings(self, start: int, end: int) -> Sequence[Firing]:
        path = self._log
        if path is None:
            return ()
        first, last = self._bounds
        rows = self._rows_of_pane(path, {first: start, last: end})
        of_settlements = {row["file"] for row in rows if row["reason"] == Reason.SETTLED.value}
        batches = self._batches_of({row["file"] for row in rows} - of_settlements)
        settled = settled_files(self._state.files, role_of("log", self.port.window), of_settlements)
        firings = dict[int, Firing]()
        for row in rows:
            before = firings.get(row["refinement"])
            firings[row["refinement"]] = Firing(
                refinement=row["refinement"],
                reason=row["reason"],
                is_final=bool(row["is_final"]),
                batch=batches.get(row["file"]),
                rows=row["rows"] + (0 if before is None else before.rows),
                values=as_fields(row["values"] or {}),
                settled_at=settled.get(row["file"]),
            )
        return [
            firing for _, firing in sorted(firings.items()) if firing.batch is None or firing.batch <= self._state.batch
        ]

    def _rows_of_pane(self, path: str, pane: Mapping[str, int]) -> list[dict[str, Any]]:
        """Return of each firing of a pane of the partition refinement, reason, is_final and file.

        With `rows`, how many it has there, and the `values` of one of them.
        """
        port = self.port.number if self._state.has_ports else None
        if (plain := read_plain_table(path, {name: (us, us) for name, us in pane.items()})) is not None:
            plain = plain.filter(is_of(plain, {name: self._key.values[name] for name in self.port.log_keys}))
            for name, value in ({"op": 1} | ({} if port is None else {PORT: port})).items():
                if name in plain.column_names:
                    plain = plain.filter(pc.equal(plain.column(name), value))
            values, firings = plain.select(self._values_of(plain.column_names)), dict[tuple[Any, ...], dict[str, Any]]()
            for place, row in enumerate(plain.select([*_OF_FIRING, "file"]).to_pylist()):
                firing = firings.setdefault(tuple(row.values()), row | {"rows": 0, "values": None})
                firing["rows"] += 1
                if firing["rows"] == 1:
                    (firing["values"],) = values.slice(place, 1).to_pylist() if values.num_columns else [None]
            return [*firings.values()]
        from panekeeper.diagnostics.inspector import by_spark

        return by_spark.firings(self._state, path, self._key, pane, _OF_FIRING, self._values_of, port=port)

    def _values_of(self, columns: Sequence[str]) -> list[str]:
        """Return which columns of the log are the result."""
        return [name for name in columns if name not in {*self.port.log_keys, *_PLACES, *NOT_VALUES, PORT, "file"}]

    def _batches_of(self, files: set[str]) -> dict[str, int]:
        """Return file of the log -> the batch that has written it, of those whose commits are kept."""
        batches: dict[str, int] = {}
        state, role = self._state, role_of("log", self.port.window)
        for _, batch, added in commits_of_batches(state.files, state.record, role):
            if batches.keys() >= files:
                break
            names = [name.rpartition("/")[2] for name in added]
            batches |= {name: batch for name in names if name in files}
        return batches

    @cached_property
    def refused(self) -> list[Refusal]:
        """Return what the quarantine has of the partition, in the order of batches."""
        refusals = refused_of(self._state, self.port, self._key)
        return with_lateness(refusals, self._watermarks, follows=self._sources[1]) if refusals else refusals

    @cached_property
    def _watermark(self) -> int:
        """The watermark of the job. A key group is run if it has rows, or a timer: it may have acted on none since."""
        return max(self.record.watermark, *self._watermarks.values(), NO_WATERMARK)

    @cached_property
    def _watermarks(self) -> dict[int, int]:
        return {batch: NO_WATERMARK if us is None else us for batch, us, _ in self._metrics}

    @cached_property
    def _missed(self) -> dict[int, int]:
        """Batch -> how often a row of the job came too late for one of its panes."""
        return {batch: missed or 0 for batch, _, missed in self._metrics}

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
            return [row for row in zip(batches, times, missed, strict=True) if row[0] <= self._state.batch]
        from panekeeper.diagnostics.inspector import by_spark

        return by_spark.metrics(self._state, path, name)

    @cached_property
    def _sources(self) -> tuple[list[SourceTime], bool, int | None]:
        """Return how far event time has come; whether batches follow Spark's watermark; and that of the next batch."""
        delays, record = read_ports(self._state.files), horizon(self.store)
        if record is None:
            ahead = _next_watermark(self._state)
            delay = delays[0].watermark_us if delays else None
            reached = ahead if ahead is not None else self._watermark
            if reached == NO_WATERMARK:
                return [], True, ahead
            return [SourceTime(name="the stream", reached=reached, delay=delay)], True, ahead
        sources = []
        known = {*record.reached, *((port.number, "") for port in self._state.ports if not port.is_arrival)}
        with_parts = {port for port, part in known if part}
        for port, part in sorted(known):
            if not part and port in with_parts:
                continue
            own = delays[port] if port < len(delays) else None
            seen = max(record.seen.get((port, part), 0), record.since)
            sources.append(
                SourceTime(
                    name=f"port {port}{f', partition {part}' if part else ''}",
                    reached=record.reached.get((port, part)),
                    delay=None if own is None else own.watermark_us,
                    silent=record.now - seen if seen else None,
                    idle_after=None if own is None else own.idle_after_us,
                )
            )
        return sources, False, None


def _next_watermark(state: Opened) -> int | None:
    """Return the watermark that Spark has for the batch after the one that is looked at, us; None for none."""
    for line in log_lines(state.files, f"{COMMITS_FOLDER}/{state.batch}"):
        if isinstance(line, dict) and (ms := int(line.get("nextBatchWatermarkMs") or 0)):
            return ms * 1000
    return None


def _keys_of(rows: pa.Table, names: list[str]) -> list[tuple[Any, ...]]:
    keys = rows.select(names).group_by(names).aggregate([]).slice(0, _MOST_KEYS)
    return [*zip(*(keys.column(name).to_pylist() for name in names), strict=True)]


def key_text(names: Sequence[str], values: Sequence[Any]) -> str:
    """Return a partition as messages show it."""
    return " ".join(f"{name}={value}" for name, value in zip(names, values, strict=True))
