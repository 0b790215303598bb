"""Every stored field of a key group, in one place: what is not here is not persisted.

The contents themselves (slices of partial aggregates, raw rows) are segments of the `KeyGroupStore`; a record lists
which segments there are. A field added here needs a new `STATE_VERSION` in `panekeeper.state.codec`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from panekeeper.state.codec import decode_header, encode_header
from panekeeper.state.errors import CorruptState
from panekeeper.state.handler import HandlerState
from panekeeper.state.store import HEADER
from panekeeper.state.user_values import from_json, to_json

NO_WATERMARK = -(2**63)
"""The watermark before the first one: smaller than every time."""
NEVER = 2**63 - 1
"""An instant that does not come, us: greater than every time."""


@dataclass
class PaneRecord:
    """One open pane of a time-interval window."""

    complete: bool = False
    """The watermark has reached its end while the pane existed (docs/semantics.md section 6)."""
    has_counts: bool = False
    """A segment ("fired", pane, 0) counts the firings of the partitions that were refined."""


@dataclass
class IntervalRecord:
    """The header of one key group of a time-interval window."""

    watermark: int = NO_WATERMARK
    """Largest watermark acted on, us since the epoch."""
    next_seq: int = 0
    """Arrival number of the next row."""
    flushed: bool = False
    """A flush closed every pane for good."""
    panes: dict[int, PaneRecord] = field(default_factory=dict)
    """Open panes by number k: those of equal length start at k * period + offset, those of a calendar are its own."""
    segments: dict[int, int] = field(default_factory=dict)
    """Stored partial aggregates: first slot (bucket of event time) -> how many slots its segment holds."""
    row_runs: dict[tuple[int, int], int] = field(default_factory=dict)
    """Stored rows: first slot, and how many slots a segment holds -> how many such segments."""
    last_runs: dict[int, int] = field(default_factory=dict)
    """Stored results of the last firings, where the next takes them back: as `firing_runs`."""
    firing_runs: dict[int, int] = field(default_factory=dict)
    """Stored cells of panes with a rule for their firings: first pane -> how many panes its segment holds."""
    fill_until: int | None = None
    """Panes without rows that end by then get results, us; segment ("fills", 0, 0) says of which partitions. None:
    there is no such segment."""
    clock: int | None = None
    """The time of the wall clock that ticks have brought, us; None where nothing fires by it, or before the first."""
    unfired: dict[int, int] = field(default_factory=dict)
    """Of panes with such a rule, those with rows since their partitions last fired -> when the clock next makes one of
    these fire, us, or `NEVER`."""
    pending: pa.Table | None = None
    """Partitions that got late rows since the pane last fired: partition columns, `pane`, `before` (the partition
    had content in that pane already, so it has fired at least once)."""

    def encode(self) -> bytes:
        """Return the header as bytes."""
        fields = {
            "watermark": self.watermark,
            "next_seq": self.next_seq,
            "flushed": self.flushed,
            "panes": [[k, p.complete, p.has_counts] for k, p in sorted(self.panes.items())],
            "segments": sorted(self.segments.items()),
            "row_runs": [[*run, values] for run, values in sorted(self.row_runs.items())],
        }
        if self.clock is not None:
            fields["clock"] = self.clock
        if self.fill_until is not None:
            fields["fill_until"] = self.fill_until
        if self.last_runs:
            fields["last"] = sorted(self.last_runs.items())
        if self.firing_runs:
            fields["firings"] = [sorted(self.firing_runs.items()), sorted(self.unfired.items())]
        return encode_header(fields, {} if self.pending is None else {"pending": self.pending})

    @classmethod
    def decode(cls, value: bytes | None) -> IntervalRecord:
        """Return the record in a header; an absent header is a group that has seen nothing."""
        if value is None:
            return cls()
        fields, tables = decode_header(value)
        firing_runs, unfired = map(dict, fields.get("firings", ((), ())))
        return cls(
            watermark=fields["watermark"],
            next_seq=fields["next_seq"],
            flushed=fields["flushed"],
            panes={k: PaneRecord(complete, has_counts) for k, complete, has_counts in fields["panes"]},
            segments=dict(fields["segments"]),
            row_runs={(first, slots): values for first, slots, values in fields["row_runs"]},
            clock=fields.get("clock"),
            fill_until=fields.get("fill_until"),
            last_runs=dict(fields.get("last", ())),
            firing_runs=firing_runs,
            unfired=unfired,
            pending=tables.get("pending"),
        )


SESSIONS_KIND = "sessions"
"""Kind of the segments with sessions and their partial results: tables of one value."""
ARCHIVES = 2**50
"""No leaf has so great a number."""
SESSIONS, DUE, ROW_VALUES, CLOCK = range(4)
"""Places in the record of a leaf, one stored part of the open sessions of a key group (`core.sessions.leaves`): number
of sessions in segment ("sessions", leaf, 0), none if there is no segment; least watermark at which one of them has
something to do, us; number of segments ("rows", leaf, n) with rows, n = 0, 1, ...; when one of them next fires by the
wall clock, us, -1 for never. There may be thousands of leaves, and each header has all, so they are no
objects."""


@dataclass
class SessionRecord:
    """The header of one key group of a session window."""

    watermark: int = NO_WATERMARK
    """Largest watermark acted on, us since the epoch."""
    next_seq: int = 0
    """Arrival number of the next row."""
    flushed: bool = False
    """A flush closed every session for good."""
    clock: int | None = None
    """Greatest time of the wall clock acted on, us, where sessions fire by it."""
    leaves: dict[int, list[int]] = field(default_factory=dict)
    """Number of a leaf -> what it has. The partitions of leaf 2**d + b have b as the last d bits of their hash."""
    archives: dict[int, list[int]] = field(default_factory=dict)
    """Number of an archive -> what it has, as a leaf; then the leaf whose partitions they are of, which may have been
    split since; their least first row and greatest end, us. Its segments are those of leaf `ARCHIVES` + number."""

    def encode(self) -> bytes:
        """Return the header as bytes."""
        fields = {
            "watermark": self.watermark,
            "next_seq": self.next_seq,
            "flushed": self.flushed,
            "clock": self.clock,
            "leaves": sorted(self.leaves.items()),
            "archives": sorted(self.archives.items()),
        }
        return encode_header(fields, {})

    @classmethod
    def decode(cls, value: bytes | None) -> SessionRecord:
        """Return the record in a header; an absent header is a group that has seen nothing."""
        if value is None:
            return cls()
        fields, _ = decode_header(value)
        fields["leaves"], fields["archives"] = dict(fields["leaves"]), dict(fields["archives"])
        return cls(**fields)


@dataclass
class KeptRowsRecord:
    """Rows that are kept by their event time: those of one port of an interval join, or the ids of a port."""

    slot_us: int = 0
    """Length of a slot, us; 0 before the first row."""
    next_number: int = 0
    """Arrival number of the next row."""
    slots: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Slot of event time -> rows in it, and the least event time of those that may still be given up, us."""
    row_runs: dict[tuple[int, int], int] = field(default_factory=dict)
    """Stored rows: first slot, and how many slots a segment holds -> how many such segments."""
    matched: set[int] = field(default_factory=set)
    """Blocks of slots for which a segment ("matched", block, 0) has the numbers of the rows that had a partner."""

    def fields(self) -> dict[str, Any]:
        """Return what a header has of it."""
        return {
            "slot_us": self.slot_us,
            "next_number": self.next_number,
            "slots": [[slot, *rest] for slot, rest in sorted(self.slots.items())],
            "row_runs": [[*run, values] for run, values in sorted(self.row_runs.items())],
            "matched": sorted(self.matched),
        }

    @classmethod
    def of(cls, fields: dict[str, Any]) -> KeptRowsRecord:
        """Return the record that a header has."""
        return cls(
            slot_us=fields["slot_us"],
            next_number=fields["next_number"],
            slots={slot: (rows, first) for slot, rows, first in fields["slots"]},
            row_runs={(first, slots): values for first, slots, values in fields["row_runs"]},
            matched=set(fields["matched"]),
        )

    def encode(self) -> bytes:
        """Return it as a header of its own."""
        return encode_header(self.fields(), {})

    @classmethod
    def decode(cls, value: bytes | None) -> KeptRowsRecord:
        """Return the record in a header of its own; an absent one is a group that has kept nothing."""
        return cls() if value is None else cls.of(decode_header(value)[0])


@dataclass
class ByRowRecord:
    """The header of one key group of windows by row."""

    watermark: int = NO_WATERMARK
    """Largest watermark acted on, us since the epoch."""
    flushed: bool = False
    """A flush closed every window for good."""
    kept: KeptRowsRecord = field(default_factory=KeptRowsRecord)
    """The rows of open windows."""
    pending: list[list[int]] = field(default_factory=list)
    """Rows that came behind the watermark since it last moved: arrival number and event time, us."""
    fired: pa.Table | None = None
    """Windows that have fired another number of times than usual (`core.by_row`), as more than once: partition columns,
    `_last` (their last instant, us) and `_fired`."""

    def encode(self) -> bytes:
        """Return the header as bytes."""
        fields = {"watermark": self.watermark, "flushed": self.flushed, "pending": self.pending}
        tables = {} if self.fired is None else {"fired": self.fired}
        return encode_header({**fields, "kept": self.kept.fields()}, tables)

    @classmethod
    def decode(cls, value: bytes | None) -> ByRowRecord:
        """Return the record in a header; an absent header is a group that has seen nothing."""
        if value is None:
            return cls()
        fields, tables = decode_header(value)
        fields["kept"] = KeptRowsRecord.of(fields["kept"])
        return cls(**fields, fired=tables.get("fired"))


@dataclass
class JoinRecord:
    """The header of one key group of an interval join, for both ports."""

    watermark: int = NO_WATERMARK
    """Largest watermark acted on, us since the epoch."""
    flushed: bool = False
    """A flush ended the join for good."""
    ports: tuple[KeptRowsRecord, KeptRowsRecord] = field(default_factory=lambda: (KeptRowsRecord(), KeptRowsRecord()))

    def encode(self) -> bytes:
        """Return the header as bytes."""
        ports = [port.fields() for port in self.ports]
        return encode_header({"watermark": self.watermark, "flushed": self.flushed, "ports": ports}, {})

    @classmethod
    def decode(cls, value: bytes | None) -> JoinRecord:
        """Return the record in a header; an absent header is a group that has seen nothing."""
        if value is None:
            return cls()
        fields, _ = decode_header(value)
        first, second = map(KeptRowsRecord.of, fields["ports"])
        return cls(watermark=fields["watermark"], flushed=fields["flushed"], ports=(first, second))


@dataclass
class SequenceRecord:
    """The header of one key group of a tumbling, sliding or batched window.

    `partitions` has one row a live partition: the partition columns, then
    `_inside` int64 (tuples in the window), `_waiting` int64 (kept outside until the next batch),
    `_since` int64 (tuples since it last fired), `_full` bool (initial_full has fired),
    `_last_at` int64 us and `_last_seq` int64 (last insertion), `_due` int64 us (next instant of its timer),
    `_base` (value that last triggered), `_oldest` (value of the oldest tuple), both null or in the attribute's type,
    and the partial results of a tumbling aggregate, `n.m`.
    """

    clock: int = NO_WATERMARK
    """Largest time that all partitions have acted on, us. By the wall clock a row moves that of its own only."""
    ready: int = NO_WATERMARK
    """When the window was first ready for input: batch periods and the one partition of an unpartitioned window
    count from it."""
    next_seq: int = 0
    """Arrival number of the next row."""
    firings: int = 0
    """Number of the next firing in this key group."""
    final: bool = False
    """The final mark came: timers have stopped for good."""
    flushed: bool = False
    """A flush ended the window for good."""
    pieces: dict[int, int] = field(default_factory=dict)
    """Stored row segments: number -> rows in it."""
    next_piece: int = 0
    """Number of the next row segment."""
    partitions: pa.Table | None = None

    def encode(self) -> bytes:
        """Return the header as bytes."""
        plain = ("clock", "ready", "next_seq", "firings", "final", "flushed", "next_piece")
        fields = {name: getattr(self, name) for name in plain} | {"pieces": sorted(self.pieces.items())}
        return encode_header(fields, {} if self.partitions is None else {"partitions": self.partitions})

    @classmethod
    def decode(cls, value: bytes | None) -> SequenceRecord:
        """Return the record in a header; an absent header is a group that has seen nothing."""
        if value is None:
            return cls()
        fields, tables = decode_header(value)
        fields["pieces"] = dict(fields["pieces"])
        return cls(**fields, partitions=tables.get("partitions"))


HANDLERS = "handlers"
"""Kind of the segment that holds a `LifecycleRecord`."""
HORIZON = "horizon"
"""Kind of the segment that holds a `HorizonRecord`."""


def is_header(kind: str) -> bool:
    """Say whether a segment of this kind is a header: those above, and that of a further port. Others are tables.

    >>> is_header("port 1/header"), is_header("port 1/rows")
    (True, False)
    """
    return kind in (HEADER, HANDLERS, HORIZON) or kind.endswith((f"/{HEADER}", SESSIONS_KIND))


Source = tuple[int, str]
"""What has an event time of its own: a port, and "", or one partition of what it reads."""


@dataclass
class HorizonRecord:
    """How far event time has come in each of several sources; segment ("horizon", 0, 0)."""

    reached: dict[Source, int] = field(default_factory=dict)
    """Source -> greatest event time seen in any key group, less the port's delay, us since the epoch."""
    seen: dict[Source, int] = field(default_factory=dict)
    """Source -> wall-clock time of the last batch that brought a row, us; only where ports may be idle."""
    common: int = NO_WATERMARK
    """The watermark of all of them; it never goes back."""
    now: int = NO_WATERMARK
    """The wall-clock time that has come, us; `NO_WATERMARK`: none."""
    since: int = 0
    """When the run began, us: the time before it is no idle time."""

    def encode(self) -> bytes:
        """Return the record as bytes."""
        sources = {
            name: [[*source, us] for source, us in sorted(times.items())]
            for name, times in (("reached", self.reached), ("seen", self.seen))
        }
        return encode_header({**sources, "common": self.common, "now": self.now, "since": self.since}, {})

    @classmethod
    def decode(cls, value: bytes | None) -> HorizonRecord:
        """Return the record that `encode` wrote; without one, no source has any event time yet."""
        if value is None:
            return cls()
        stored, _ = decode_header(value)
        for name in ("reached", "seen"):
            stored[name] = {(port, part): us for port, part, us in stored[name]}
        return cls(**stored)


@dataclass
class LifecycleRecord:
    """What the state handlers of one key group wrote with the last checkpoint; segment ("handlers", 0, 0)."""

    checkpoint: int
    """Number of that checkpoint: of its micro-batch."""
    previous: int | None
    """The one before it, which the handlers have not retired yet."""
    run: int
    """Number of the run that took it: how often the job had been started."""
    handlers: list[HandlerState]

    def encode(self) -> bytes:
        """Return the record as bytes."""
        tables = {
            f"{number}/{name}": value
            for number, handler in enumerate(self.handlers)
            for name, value in handler.values.items()
            if isinstance(value, pa.Table)
        }
        handlers = [
            {
                "name": handler.name,
                "version": handler.version,
                "values": {n: to_json(v) for n, v in handler.values.items() if not isinstance(v, pa.Table)},
            }
            for handler in self.handlers
        ]
        fields = {"checkpoint": self.checkpoint, "previous": self.previous, "run": self.run, "handlers": handlers}
        return encode_header(fields, tables)

    @classmethod
    def decode(cls, value: bytes) -> LifecycleRecord:
        """Return the record that `encode` wrote. Raises `CorruptState` or `StateVersionError`."""
        fields, tables = decode_header(value)
        try:
            values = [{n: from_json(v) for n, v in handler["values"].items()} for handler in fields["handlers"]]
        except ValueError as error:
            raise CorruptState(
                f"the stored state of a handler cannot be read ({error}); restore this checkpoint from a savepoint, "
                "or start with a new checkpoint folder"
            ) from error
        for path, table in tables.items():
            number, _, name = path.partition("/")
            values[int(number)][name] = table
        handlers = [
            HandlerState(name=handler["name"], version=handler["version"], values=kept)
            for handler, kept in zip(fields["handlers"], values, strict=True)
        ]
        return cls(fields["checkpoint"], fields["previous"], fields["run"], handlers)
