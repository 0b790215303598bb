"""The commits in Delta's log of a table, as files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from panekeeper.state.checkpoint.folder import parse_json

if TYPE_CHECKING:
    from pathlib import Path

    from panekeeper.state.spark_logs.offsets import LogFolder

LOG = "_delta_log"
POINTER = f"{LOG}/_last_checkpoint"
NOTE = "userMetadata"
"""Field of Delta's for a note in the first line of a commit."""
CUT_SHORT = "was cut short, as by a power cut"
COMMIT = re.compile(r"\d{20}\.json")
CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.(?:.*\.)?(?:parquet|json)")
_VERSION = re.compile(rf"(\d{{20}})\.json|{CHECKPOINT.pattern}")


def newest_files(table: LogFolder, version: int | None = None) -> tuple[str, list[str]]:
    """Return the number of the newest checkpoint of the log, "" for none, and those of commits from it on, in order.

    Args:
        table: its folder.
        version: of the table, after which nothing counts.
    """
    last = "9" * 20 if version is None else f"{version:020d}"
    found = [match for name in table.names(LOG) if (match := _VERSION.fullmatch(name)) and match[0][:20] <= last]
    checkpoint = max((one[2] for one in found if one[2]), default="")
    return checkpoint, sorted(one[1] for one in found if one[1] and one[1] >= checkpoint)


def note_of(transaction: str, number: int) -> str:
    """Return the note in a commit of a job: it has this transaction, in a later line, or has lost its end."""
    return f"{transaction}:{number}"


def actions_of(content: bytes) -> list[dict[str, Any]] | None:
    """Return the actions of a commit; None if it was cut within a line."""
    try:
        actions = [parse_json(line) for line in content.splitlines() if line]
    except ValueError:
        return None
    return actions if all(isinstance(action, dict) for action in actions) else None


def parts(actions: Iterable[Mapping[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return what the actions of a kind say."""
    return [one[kind] for one in actions if isinstance(one.get(kind), dict)]


def info_of(actions: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what a commit says of itself."""
    return next(iter(parts(actions, "commitInfo")), {})


def size_of(path: Path) -> int | None:
    """Return the size of a file in bytes; None if it is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
