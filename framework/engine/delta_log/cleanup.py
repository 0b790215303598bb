"""For how long is a commit kept in the log of a table, where a checkpoint stands for it?"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from framework.engine.delta_log.commits import COMMIT, LOG
from state.checkpoint.clock import now_us
from state.checkpoint.folder import LocalFolder, modified_s

_RETENTION = re.compile(r"interval (\d+) (second|minute|hour|day|week)s?")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_USUAL_RETENTION = "interval 30 days"


def has_commits_to_remove(properties: Mapping[str, str], folder: str | None, now_us: int) -> bool:
    """Return whether the library may remove old commits from the log of a table, and there may be some.

    The owner must allow it, and the library must understand for how long they are kept: it takes 30 days for a
    duration that it cannot read, without an error.

    Args:
        properties: the table's.
        folder: the table's on this machine, None for elsewhere.
        now_us: the time, microseconds since the epoch.
    """
    kept_us = _kept_us(properties)
    if kept_us is None or folder is None:
        return kept_us is not None
    log = Path(folder) / LOG
    first = min((name for name in os.listdir(log) if COMMIT.fullmatch(name)), default=None)  # noqa: PTH208 -- only names
    try:
        return first is not None and (log / first).stat().st_mtime_ns <= (now_us - kept_us) * 1000
    except FileNotFoundError:  # another writer removes it just now
        return False


def may_be_removed(table: LocalFolder, number: int, checkpoint: int) -> bool:
    """Return whether a commit is so old that one after it may have been removed before it was.

    The library removes many at once, and in any order: if it is killed meanwhile, some are left before others that are
    gone.

    Args:
        table: its folder.
        number: of a commit that is there, and for which a checkpoint of the log stands.
        checkpoint: the number of that one. What came after it may be damaged.
    """
    try:
        kept_us = _kept_us(DeltaTable(table.root, version=checkpoint).metadata().configuration)
    except (DeltaError, OSError):
        return False
    written_us = modified_s(table.path / LOG / f"{number:020d}.json") * 1_000_000
    return kept_us is not None and written_us <= now_us() - kept_us


def _kept_us(properties: Mapping[str, str]) -> int | None:
    if properties.get("delta.enableExpiredLogCleanup", "true").lower() != "true":
        return None
    retention = _RETENTION.fullmatch(properties.get("delta.logRetentionDuration", _USUAL_RETENTION))
    return None if retention is None else int(retention[1]) * _SECONDS[retention[2]] * 1_000_000
