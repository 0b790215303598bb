"""Which files of the log of a table need not be kept any longer, as a checkpoint stands for them?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from panekeeper.framework.engine.delta_log.checkpoints import files_of_checkpoint
from panekeeper.framework.engine.delta_log.commits import CHECKPOINT, COMMIT, LOG
from panekeeper.framework.engine.delta_log.written_files import WrittenFiles
from panekeeper.state.checkpoint.folder import LocalFolder, modified_s, sync_files

_RETENTION = re.compile(r"interval (\d+) (second|minute|hour|day|week)s?")
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_USUAL_RETENTION = "interval 30 days"
_NUMBERED = re.compile(r"\d{20}\.")


def kept_seconds(properties: Mapping[str, str]) -> int | None:
    """Return for how long the commits of a table are kept.

    None: its owner does not allow to remove any, or it is not clear for how long. The library takes 30 days for a
    duration that it cannot read, without an error.

    Args:
        properties: the table's.
    """
    if properties.get("delta.enableExpiredLogCleanup", "true").lower() != "true":
        return None
    retention = _RETENTION.fullmatch(properties.get("delta.logRetentionDuration", _USUAL_RETENTION))
    return None if retention is None else int(retention[1]) * _SECONDS[retention[2]]


def clean_up(written: WrittenFiles, properties: Mapping[str, str], now_us: int) -> None:
    """Remove the files of a log that need not be kept.

    Args:
        written: what has come to the table.
        properties: the table's.
        now_us: the time, microseconds since the epoch.
    """
    table = written.table
    checkpoint, old = old_files(table, properties, now_us)
    if old:  # a power cut must not take what alone says then which rows there are, whoever has written it
        written.flush()
        sync_files({table.path / name for name in files_of_checkpoint(table, checkpoint)})
        for name in old:
            table.remove(name)


def old_files(table: LocalFolder, properties: Mapping[str, str], now_us: int) -> tuple[str, list[str]]:
    """Return the number of a checkpoint of a log, and the files for which it stands, if these may be removed.

    They are in the order in which they are to be removed, from the first commit on.

    The library removes many at once, in any order. If it is killed meanwhile, some commits are left before others that
    are gone, as where a power cut has taken those. So its own cleanup is for stores, where no commit is ever lost.

    Every version of the table since the oldest commit that is kept can still be read: there is a checkpoint before it.

    Args:
        table: its folder.
        properties: the table's.
        now_us: the time, microseconds since the epoch.
    """
    names, kept_s = table.names(LOG), kept_seconds(properties)
    commits = [name for name in names if COMMIT.fullmatch(name)]
    if kept_s is None or not commits:
        return "", []
    since = now_us / 1_000_000 - kept_s
    first = next((name for name in commits if modified_s(table.path / LOG / name) > since), commits[-1])
    checkpoints = (match[1] for name in names if (match := CHECKPOINT.fullmatch(name)))
    needed = max((one for one in checkpoints if one <= first[:20]), default="")
    return needed, [f"{LOG}/{name}" for name in names if _NUMBERED.match(name) and name[:20] < needed]
