"""Which files of rows does a table on a local disk lack, or a part of them, of those that its commits have added?"""

from __future__ import annotations

from base64 import b85decode
from collections.abc import Iterable, Mapping
from itertools import chain, takewhile
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from panekeeper.framework.engine.delta_log.checkpoints import go_back_before
from panekeeper.framework.engine.delta_log.commits import COMMIT, LOG, actions_of, newest_files, parts, size_of
from panekeeper.framework.engine.delta_log.file_checksums import cut_short_checksum
from panekeeper.state.checkpoint.folder import WRITTEN_BY_S, LocalFolder, modified_s

_AROUND_VECTOR = 8
"""Bytes for its length and its checksum."""
_ID_LETTERS = 20
_Z85 = str.maketrans(
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
)
"""Letters of Z85 -> those of Python's base 85."""
_MOST_COMMITS = 1_000
"""How far back a start looks for the last batch of a job: another job may have written to a table since."""


def cut_short_file(table: LocalFolder, batch: tuple[str, int] | None = None) -> str | None:
    """Return what to do about a file of rows that was cut short, or is gone, as a sentence without its end.

    None: there is none such, of those that were added since the newest checkpoint of the log, or in the last minutes
    before its newest commit, or since a batch.

    Args:
        table: its folder.
        batch: the transaction of a batch, and its number.
    """
    files = _added(table, batch)
    lost = _first_lost(files)
    if lost is None:
        return next(filter(None, (cut_short_checksum(table, name) for _, name, _ in files)), None)
    if _first_lost(_added(table, batch)) != lost:  # it is replaced just now, and removed
        return None
    version, path = lost
    return (
        f"{path} in {table.root} was cut short, as by a power cut, or is gone, and the rows in it are lost; it is of "
        f"version {version} of the table: put it back; or {go_back_before(table, version)}"
    )


def _first_lost(files: Iterable[tuple[int, str, bool]]) -> tuple[int, str] | None:
    return min(((version, name) for version, name, is_whole in files if not is_whole), default=None)


def _added(table: LocalFolder, batch: tuple[str, int] | None) -> list[tuple[int, str, bool]]:
    return added_files(table, newest_commits(table) if batch is None else _since(table, batch))


def added_files(
    table: LocalFolder, commits: Iterable[str], kinds: Iterable[str] = ("add",)
) -> list[tuple[int, str, bool]]:
    """Return the files that commits have added and none of them has removed: version, name, and whether each is whole.

    Args:
        table: its folder.
        commits: the numbers of commits in its log, in order.
        kinds: the actions that add them; those of "cdc" a VACUUM removes while their commits are there.
    """
    added: dict[str, tuple[int, int | None, Any]] = {}
    for one in commits:
        try:
            actions = actions_of(table.read(f"{LOG}/{one}.json")) or []
        except FileNotFoundError:  # another writer cleans up the log just now
            continue
        for gone in parts(actions, "remove"):
            added.pop(unquote(str(gone.get("path"))), None)
        for new in chain.from_iterable(parts(actions, kind) for kind in kinds):
            added[unquote(str(new.get("path")))] = int(one), new.get("size"), new.get("deletionVector")
    found: list[tuple[int, str, bool]] = []
    for path, (version, size, vector) in added.items():
        if ":/" not in path:  # those of a shallow clone are elsewhere
            found.append((version, path, size_of(table.path / path) == size))
        file, end = _vector_file(vector) if vector else ("", 0)
        if file:
            found.append((version, file, (size_of(table.path / file) or 0) >= end))
    return found


def _vector_file(vector: Mapping[str, Any]) -> tuple[str, int]:
    """Return the file of a deletion vector, and where it ends in it; no file if it is in the commit, or elsewhere.

    Its name is an id in letters (Z85), after the folder, as the protocol of Delta has it.
    """
    if vector.get("storageType") != "u":
        return "", 0
    text = str(vector.get("pathOrInlineDv"))
    name = UUID(bytes=b85decode(text[-_ID_LETTERS:].translate(_Z85)))
    folder = f"{text[:-_ID_LETTERS]}/" if text[:-_ID_LETTERS] else ""
    end = int(vector.get("offset") or 0) + int(vector.get("sizeInBytes") or 0) + _AROUND_VECTOR
    return f"{folder}deletion_vector_{name}.bin", end


def newest_commits(table: LocalFolder) -> list[str]:
    """Return the numbers of the newest commits: those whose files the operating system may not have written by now."""
    return sorted({*newest_files(table)[1], *young_commits(table)})


def young_commits(table: LocalFolder) -> list[str]:
    """Return the numbers of the commits of the last minutes before the newest one, this one first."""
    names = sorted((name for name in table.names(LOG) if COMMIT.fullmatch(name)), reverse=True)[:_MOST_COMMITS]
    times = [modified_s(table.path / LOG / name) for name in names]
    late = takewhile(lambda one: one[1] >= times[0] - WRITTEN_BY_S, zip(names, times, strict=True))
    return [name.removesuffix(".json") for name, _ in late]


def _since(table: LocalFolder, batch: tuple[str, int]) -> list[str]:
    """Return the numbers of the commit of a batch and of those after it; none if it is not found."""
    names = sorted((name for name in table.names(LOG) if COMMIT.fullmatch(name)), reverse=True)
    for count, name in enumerate(names[:_MOST_COMMITS], 1):
        done = parts(actions_of(table.read(f"{LOG}/{name}")) or [], "txn")
        if batch in [(one.get("appId"), one.get("version")) for one in done]:
            return [one.removesuffix(".json") for one in reversed(names[:count])]
    return []
