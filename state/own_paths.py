"""The full name of a checkpoint, which Spark writes into some of its files: what they are in another folder.

Spark writes full names into the logs of file sources, of which the control stream is one, and into the metadata of its
state. With an old name there, the job would process control files again, or read the old folder. So a copy gets its own
name there, and a checkpoint that was renamed, moved, or is named by a link does at its next start (`follow`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

from panekeeper.state.checkpoint.control_files import control_folder_read, control_source
from panekeeper.state.checkpoint.folder import (
    CONTROL_FOLDER,
    SOURCES_FOLDER,
    STATE_FOLDER,
    CheckpointFolder,
    local_path,
    plain_url,
)
from panekeeper.state.spark_logs import needed_entries

_NOT_QUOTED = "/:@!$&'()*+,;=~"
"""Beside letters, digits and `_.-`, the characters of ASCII that Java does not quote in a path."""


def follow(folder: CheckpointFolder) -> str | None:
    """Let Spark's files name the folder of an epoch that they are in, whose lease is held.

    The newest entry is last: a kill before repeats it all. Returns the name that stood in them; None if it was right.
    """
    old, now = written_in(folder), _name_on_disk(folder.place)
    if old is None or plain_url(old) == plain_url(now):
        return None
    source = f"{SOURCES_FOLDER}/{control_source(folder)}"
    entries = [f"{source}/{name}" for name in needed_entries(folder.names(source))]
    operators = (f"{STATE_FOLDER}/{operator}/_metadata" for operator in folder.names(STATE_FOLDER))
    described = [file for inner in operators for file in _files_in(folder, inner)]
    for name in (*described, *entries):
        content = folder.read(name)
        if (renamed := with_new_path(name, content, old=old, new=now)) != content:
            folder.write(name, renamed, replace=True)
    return old


def written_in(folder: CheckpointFolder) -> str | None:
    """Return the full name of the folder by which Spark's files name it; None if they have none yet."""
    control = control_folder_read(folder)
    if control is None:
        return None
    return _name_on_disk(unquote(control).removesuffix(f"/{CONTROL_FOLDER}"))


def _name_on_disk(place: str) -> str:
    """Return the full name of a folder, without a scheme if it is on a local disk."""
    local = local_path(place)
    return place if local is None else str(local)


def with_new_path(path: str, content: bytes, *, old: str, new: str) -> bytes:
    """Return the content of a file of a checkpoint, written in one folder, for another one, by their full names."""
    is_log = path.startswith(f"{SOURCES_FOLDER}/")
    if old == new or not (is_log or is_description(path)):
        return content
    names: dict[str, str] = {}
    # In the log of a source names are quoted as in a URL, in the metadata they are plain; the last spelling counts.
    for quote_or_not in (str, quoted) if is_log else (quoted, str):
        after, before = spellings(quote_or_not(new)), spellings(quote_or_not(old))
        names |= {f"{spelling}/": f"{after.get(kind, after['url'])}/" for kind, spelling in before.items()}
    pattern = re.compile("|".join(map(re.escape, names)))  # of two that match, the first
    return pattern.sub(lambda match: names[match[0]], content.decode()).encode()


def is_description(path: str) -> bool:
    """Return whether a file describes the state of an operator; `_metadata` of a store within has its schema."""
    parts = PurePosixPath(path).parts
    return parts[0] == STATE_FOLDER and parts[2:3] == ("_metadata",)


def quoted(folder: str) -> str:
    """Return a name as Java quotes it in a URL: beyond ASCII only spaces and control characters are."""

    def is_plain(character: str) -> bool:
        return not character.isascii() and unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc")

    return "".join(character if is_plain(character) else quote(character, safe=_NOT_QUOTED) for character in folder)


def spellings(folder: str) -> dict[str, str]:
    """Return how Spark writes the full name of a folder."""
    return {"url": folder} if "://" in folder else {"url": f"file://{folder}", "short": f"file:{folder}"}


def _files_in(folder: CheckpointFolder, inner: str) -> Iterator[str]:
    for path in (f"{inner}/{name}" for name in folder.names(inner)):
        below = [*_files_in(folder, path)]
        yield from below or [path]
