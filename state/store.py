# ruff: noqa: D102 -- what these methods mean is said once, in `KeyGroupStore`
"""The store of one key group's persisted state: one header and a map of segments.

The core uses the protocol only. `MemoryStore` keeps it in a dictionary (tests, `play()`);
`panekeeper.state.spark_store.SparkStore` in Spark's state store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from panekeeper.state.errors import CorruptState

SEGMENTS = "segments"
"""What the map is called in Spark's state store, where all of a key group is an entry of it."""
HEADER = "header"
"""Kind of the header of a store, or of a part of one, which is one segment of slot 0."""


class KeyGroupStore(Protocol):
    """The persisted state of one key group. Called by the core, inside one micro-batch.

    A segment is written under (kind, slot, seq) and removed whole; `kind` says what it holds, `slot` is a number
    by which related segments are removed together (a bucket of event time, a partition), `seq` numbers those of a slot.
    """

    def read_header(self) -> bytes | None:
        """Return the header as last written, or None for a group that never wrote one."""
        return self.find(HEADER, 0, 0)

    def write_header(self, value: bytes) -> None:
        """Replace the header."""
        self.write(HEADER, 0, 0, value)

    def read(self, kind: str, slot: int, seq: int) -> bytes:
        """Return one segment. Raises `CorruptState` if it is not there although the header lists it."""
        value = self.find(kind, slot, seq)
        if value is None:
            raise CorruptState(
                f"the stored segment {kind}/{slot}/{seq} is missing although the header lists it. Restore this "
                "checkpoint from a savepoint, or start with a new checkpoint folder"
            )
        return value

    def find(self, kind: str, slot: int, seq: int) -> bytes | None:
        """Return one segment, or None if there is none."""
        ...

    def write(self, kind: str, slot: int, seq: int, value: bytes) -> None:
        """Put one segment, replacing what stood there."""
        ...

    def remove(self, kind: str, slot: int, seq: int) -> None:
        """Drop one segment; nothing happens if it is not there."""
        ...


class StoredHeader:
    """The header of a store, or of a part of one, as it was read: it is written again only if it has changed."""

    def __init__(self, store: KeyGroupStore) -> None:
        """Read it."""
        self._store = store
        self.value = store.read_header()

    def write(self, value: bytes) -> None:
        """Write it, unless the same is stored."""
        if value != self.value:
            self._store.write_header(value)
            self.value = value


_HEADER = (HEADER, 0, 0)


class MemoryStore(KeyGroupStore):
    """A `KeyGroupStore` in a dictionary: what a restart keeps is exactly `header` and `entries`.

    >>> store = MemoryStore()
    >>> store.write("slices", 3, 0, b"x")
    >>> store.read("slices", 3, 0)
    b'x'
    """

    def __init__(
        self, header: bytes | None = None, entries: Mapping[tuple[str, int, int], bytes] | None = None
    ) -> None:
        """Begin with this header and these other segments; with nothing if not given."""
        self.header = header
        self.entries = dict(entries or {})

    @classmethod
    def of(cls, segments: Mapping[tuple[str, int, int], bytes]) -> MemoryStore:
        """Return a store with all segments that were read of one, the header among them."""
        return cls(segments.get(_HEADER), {place: segment for place, segment in segments.items() if place != _HEADER})

    @property
    def segments(self) -> dict[tuple[str, int, int], bytes]:
        """All segments, the header among them."""
        return {**({} if self.header is None else {_HEADER: self.header}), **self.entries}

    def read_header(self) -> bytes | None:
        return self.header

    def write_header(self, value: bytes) -> None:
        self.header = value

    def find(self, kind: str, slot: int, seq: int) -> bytes | None:
        return self.entries.get((kind, slot, seq))

    def write(self, kind: str, slot: int, seq: int, value: bytes) -> None:
        self.entries[kind, slot, seq] = value

    def remove(self, kind: str, slot: int, seq: int) -> None:
        self.entries.pop((kind, slot, seq), None)

    def copy(self) -> MemoryStore:
        """Return an independent store with the same bytes: what a restarted process would read."""
        return MemoryStore(self.header, self.entries)


class PartStore(KeyGroupStore):
    """A part of a group's store, with a header and kinds of its own: their names begin with that of the part."""

    def __init__(self, store: KeyGroupStore, name: str) -> None:
        self._store = store
        self._name = name

    def find(self, kind: str, slot: int, seq: int) -> bytes | None:
        return self._store.find(self._kind(kind), slot, seq)

    def write(self, kind: str, slot: int, seq: int, value: bytes) -> None:
        self._store.write(self._kind(kind), slot, seq, value)

    def remove(self, kind: str, slot: int, seq: int) -> None:
        self._store.remove(self._kind(kind), slot, seq)

    def _kind(self, kind: str) -> str:
        return f"{self._name}/{kind}"


class WindowStore(PartStore):
    """The part of a group's store that one of several windows has."""

    def __init__(self, store: KeyGroupStore, name: str) -> None:
        super().__init__(store, self.name_of(name))

    @staticmethod
    def name_of(window: str) -> str:
        """Return what the part of a window is called."""
        return f"window {window}"


class PortStore(PartStore):
    """The part of a group's store that the window of one input port has, after port 0.

    Port 0 keeps the names that the only window of a job has. So a job with one port is stored as before there were
    several.
    """

    def __init__(self, store: KeyGroupStore, port: int) -> None:
        super().__init__(store, f"port {port}")
