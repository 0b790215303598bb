"""VACUUM by Spark, of a table whose files the library cannot read: printed, not run, as it knows no savepoints.

Files of a needed version are safe from it only while Delta still has the record that each of them was removed: for
`delta.deletedFileRetentionDuration` after that, so at least until so long after the commit of the needed version. Where
that has passed, no VACUUM is suggested.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime, timedelta

from panekeeper.framework.engine.sink.delta_log import newest_version
from panekeeper.recovery.storage.delta_tables import WEEK, committed_at, parse_interval, table_properties
from panekeeper.recovery.storage.files import Files

RETENTION = "delta.deletedFileRetentionDuration"
_MARGIN = timedelta(days=1)
"""For clocks that differ, and for the time until the statement is run."""


def vacuum_statement(
    path: str, files: Files | None, needed: Iterable[int], *, retain: timedelta, now: datetime
) -> str | None:
    """Return the statement; None if it would remove a file of a needed version.

    Args:
        path: the table's path or URL.
        files: its folder; None if only Spark reaches it.
        needed: versions that must remain readable.
        retain: for how long files of earlier versions are kept.
        now: the current time.
    """
    kept = None if files is None else _record_kept(files)
    committed = [None if files is None else committed_at(files, one) for one in _older(files, needed)]
    if any(kept is None or time is None or now - time + _MARGIN > kept for time in committed):
        return None
    return f"VACUUM delta.`{path}` RETAIN {math.ceil(max(retain, kept or WEEK, WEEK) / timedelta(hours=1))} HOURS"


def _older(files: Files | None, needed: Iterable[int]) -> list[int]:
    """Return the needed versions but the newest one, of which no file was removed yet."""
    newest = None if files is None else newest_version(files)
    return [one for one in needed if one != newest]


def _record_kept(files: Files) -> timedelta | None:
    """Return for how long a table keeps the record of a removed file; None if that is not known."""
    properties = table_properties(files)
    return None if properties is None else parse_interval(properties.get(RETENTION, "interval 1 week"))
