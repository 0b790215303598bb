"""Who is at work in a location: savepoints being made, prunes. Blobs without a manifest belong to the first.

Each leaves word first and looks for the other second, so of two that meet at least one knows: a prune that finds a
savepoint being made removes no blobs; a savepoint that finds a prune is refused. Word that a killed one left is
believed for two days.
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
def activity_marker(archive: Archive, work: Activity, now: datetime) -> Iterator[None]:
    """Leave word for as long as it lasts."""
    file = f"working/{work}-{uuid.uuid4().hex}.json"
    archive.put_bytes(file, json.dumps({"since": now.isoformat()}).encode())
    try:
        yield
    finally:
        with suppress(ArchiveError):  # what went wrong before is what matters
            archive.remove(file)


def active_markers(archive: Archive, work: Activity, now: datetime) -> dict[str, datetime]:
    """Return the files that say who else does this work, and since when; old ones are removed."""
    found = {}
    for file in archive.sizes(f"working/{work}-"):
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
        return None  # it has just ended; or it was written by nobody of ours
