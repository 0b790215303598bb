"""Which files of rows does a table on a local disk lack, or a part of them, of those that its commits have added?"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from framework.engine.delta_log.commits import COMMIT, LOG, actions_of, newest_files, parts, without
from state.checkpoint.folder import LocalFolder

if TYPE_CHECKING:
    from pathlib import Path

_MOST_COMMITS = 1_000
"""How far back a start looks for the last batch of a job: another job may have written to a table since."""


def cut_short_file(table: LocalFolder, batch: tuple[str, int] | None = None) -> str | None:
    """Return what to do about a file of rows that was cut short, or is gone, as a sentence without its end.

    None: there is none such, of those that were added since the newest checkpoint of the log, or since a batch.

    Args:
        table: its folder.
        batch: the transaction of a batch, and its number.
    """
    lost = _first_lost_file(table, batch)
    if lost is None or _first_lost_file(table, batch) != lost:  # it is replaced just now, and removed
        return None
    version, path = lost
    return (
        f"{path} in {table.root} was cut short, as by a power cut, or is gone, and the rows in it are lost; it is of "
        f"version {version} of the table: put it back; or {without(version)}"
    )


def _first_lost_file(table: LocalFolder, batch: tuple[str, int] | None) -> tuple[int, str] | None:
    added: dict[str, tuple[int, int | None]] = {}
    for one in newest_files(table)[1] if batch is None else _since(table, batch):
        actions = actions_of(table.read(f"{LOG}/{one}.json")) or []
        for gone in parts(actions, "remove"):
            added.pop(unquote(str(gone.get("path"))), None)
        for new in parts(actions, "add"):
            added[unquote(str(new.get("path")))] = int(one), new.get("size")
    here = (path for path in added if ":/" not in path)  # those of a shallow clone are elsewhere
    lost = ((added[path][0], path) for path in here if _size(table.path / path) != added[path][1])
    return min(lost, default=None)


def _since(table: LocalFolder, batch: tuple[str, int]) -> list[str]:
    """Return the numbers of the commit of a batch and of those after it; none if it is not found."""
    names = sorted((name for name in table.names(LOG) if COMMIT.fullmatch(name)), reverse=True)
    for count, name in enumerate(names[:_MOST_COMMITS], 1):
        done = parts(actions_of(table.read(f"{LOG}/{name}")) or [], "txn")
        if batch in [(one.get("appId"), one.get("version")) for one in done]:
            return [one.removesuffix(".json") for one in reversed(names[:count])]
    return []


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
