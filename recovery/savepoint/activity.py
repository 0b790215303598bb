"""What is going on in a location of savepoints: one that is being made, and a prune, keep away from each other.

Blobs without a manifest may be those of a savepoint that is being made. So a savepoint and a prune each write a marker
first and check for the other kind second: of two that start together at least one sees the other. A prune that finds a
savepoint being made removes no blobs; a savepoint that finds a prune is refused. The marker of an activity that was
killed counts for two days; on the host on which it was killed, not at all.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Literal

from panekeeper.recovery.errors import ArchiveError, DamagedSavepoint
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import read_small
from panekeeper.state.checkpoint.lease_owner import LeaseOwner

MARKERS = "working/"
MARKER_LIFETIME = timedelta(days=2)
_MAX_MARKER_BYTES = 65_536
_PROCESS = ("host", "pid", "started", "space", "boot")

Activity = Literal["savepoint", "prune"]


@contextmanager
def activity_marker(archive: Archive, activity: Activity, now: datetime) -> Iterator[None]:
    """Keep a marker of an activity in a location while the block lasts."""
    file = f"{MARKERS}{activity}-{uuid.uuid4().hex}.json"
    here = asdict(LeaseOwner.of_this_process(""))
    process = {name: here[name] for name in _PROCESS}
    archive.put_bytes(file, json.dumps({"since": now.isoformat(), "process": process}).encode())
    try:
        yield
    finally:
        with suppress(ArchiveError):  # an error of the block is the one to report
            archive.remove(file)


def active_markers(archive: Archive, activity: Activity, now: datetime) -> dict[str, datetime]:
    """Return file -> since when, of the markers of an activity in a location; those that are too old are removed."""
    began = {}
    for file in archive.sizes(f"{MARKERS}{activity}-"):
        since = _since(archive, file)
        if since is None or abs(now - since) > MARKER_LIFETIME:  # one of the future would never end
            archive.remove(file)
        else:
            began[file] = since
    return began


def _since(archive: Archive, file: str) -> datetime | None:
    """Return when an activity began; None if it has ended, or was killed on this host, or if it is no marker."""
    try:
        marker = json.loads(read_small(archive, file, _MAX_MARKER_BYTES))
        since = datetime.fromisoformat(marker["since"])
        process = LeaseOwner(name="", token="", since=0, seen=0, **marker["process"])
        was_killed = process.is_on_this_machine and not process.is_alive(0)
    except (FileNotFoundError, DamagedSavepoint, AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None
    return None if since.tzinfo is None or was_killed else since
