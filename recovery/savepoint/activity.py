"""Which savepoints are being made in a location, and which prunes are running there.

Blobs without a manifest may be those of a savepoint that is being made. So each activity writes a marker first and
checks for the other kind second: of two that start together at least one sees the other. A prune that finds a savepoint
being made removes no blobs; a savepoint that finds a prune is refused. The marker of an activity that was killed counts
for two days.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Literal

from recovery.errors import ArchiveError
from recovery.storage.archive import Archive

MARKER_LIFETIME = timedelta(days=2)

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
    archive.put_bytes(file, json.dumps({"since": now.isoformat()}).encode())
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
        if since is None or now - since > MARKER_LIFETIME:
            archive.remove(file)
        else:
            found[file] = since
    return found


def _since(archive: Archive, file: str) -> datetime | None:
    data = io.BytesIO()
    try:
        archive.get(file, data)
        return datetime.fromisoformat(json.loads(data.getvalue())["since"])
    except (FileNotFoundError, KeyError, TypeError, ValueError):
        return None  # its activity has just ended, or it is no marker
