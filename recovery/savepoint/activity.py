"""Which savepoints are being made in a location, and which prunes are running there.

Blobs without a manifest may be those of a savepoint that is being made. So each activity writes a marker first and
checks for the other kind second: of two that start together at least one sees the other. A prune that finds a savepoint
being made removes no blobs; a savepoint that finds a prune is refused. The marker of an activity that was killed counts
for two days; on the host on which it was killed, not at all.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Literal

from panekeeper.recovery.errors import ArchiveError, DamagedSavepoint
from panekeeper.recovery.storage.archive import Archive
from panekeeper.recovery.storage.blobs import LimitedSink
from panekeeper.state.checkpoint.lease import LeaseOwner

MARKER_LIFETIME = timedelta(days=2)
_MAX_BYTES = 65_536
_PROCESS = ("host", "pid", "started", "space", "boot")

Activity = Literal["savepoint", "prune"]


@contextmanager
def activity_marker(archive: Archive, activity: Activity, now: datetime) -> Iterator[None]:
    """Keep a marker of an activity in a location while the block lasts.

    Args:
        archive: the location.
        activity: which one.
        now: the current time.
    """
    file = f"working/{activity}-{uuid.uuid4().hex}.json"
    here = asdict(LeaseOwner.of_this_process(""))
    process = {name: here[name] for name in _PROCESS}
    archive.put_bytes(file, json.dumps({"since": now.isoformat(), "process": process}).encode())
    try:
        yield
    finally:
        with suppress(ArchiveError):  # an error of the block is the one to report
            archive.remove(file)


def active_markers(archive: Archive, activity: Activity, now: datetime) -> dict[str, datetime]:
    """Return the markers of an activity in a location; those that are too old are removed.

    Args:
        archive: the location.
        activity: which one.
        now: the current time.

    Returns:
        Name of the marker's file -> when its activity began.
    """
    found = {}
    for file in archive.sizes(f"working/{activity}-"):
        since = _since(archive, file)
        if since is None or abs(now - since) > MARKER_LIFETIME:  # one of the future would never end
            archive.remove(file)
        else:
            found[file] = since
    return found


def _since(archive: Archive, file: str) -> datetime | None:
    """Return when an activity began; None if it has ended, or was killed on this host, or if it is no marker."""
    data = io.BytesIO()
    try:
        archive.get(file, LimitedSink(data, _MAX_BYTES, file))
        marker = json.loads(data.getvalue())
        since = datetime.fromisoformat(marker["since"])
        return None if since.tzinfo is None or _was_killed(marker["process"]) else since
    except (FileNotFoundError, DamagedSavepoint, AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _was_killed(process: Mapping[str, Any]) -> bool:
    """Return whether a process is known to have ended: it was one of this host."""
    owner = LeaseOwner.from_fields({"name": "", "token": "", "since": 0, "seen": 0, **process})
    return owner.is_on_this_machine and not owner.is_alive(0)
