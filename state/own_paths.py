"""The full name of a checkpoint, which Spark writes into some of its files: what they are in another folder.

Spark writes full names into the logs of file sources, of which the control stream is one, and into the metadata of its
state. With an old name there, the job would process control files again, or read the old folder. So a copy gets its own
name there, and a checkpoint that was renamed, moved, or is named by a link does at its next start (`follow`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
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


def follow(folder: CheckpointFolder, before_each: Callable[[], None] = lambda: None) -> str | None:
    """Let Spark's files name the folder that they are in. The newest entry is last: a kill before repeats it all.

    Args:
        folder: that of an epoch, whose lease is held.
        before_each: called before each file is replaced.

    Returns:
        The name that stood in them; None if it was right.
    """
    old = written_in(folder)
    if old is None or plain_url(old) == plain_url(folder.place):
        return None
    source = f"{SOURCES_FOLDER}/{control_source(folder)}"
    entries = [f"{source}/{name}" for name in needed_entries(folder.names(source))]
    for name in (*_descriptions(folder), *entries):
        content = folder.read(name)
        if (renamed := with_new_path(name, content, old=old, new=folder.place)) != content:
            before_each()
            folder.write(name, renamed, replace=True)
    return old


def written_in(folder: CheckpointFolder) -> str | None:
    """Return the full name of the folder by which Spark's files name it; None if they have none yet."""
    control = control_folder_read(folder)
    if control is None:
        return None
    place = unquote(control).removesuffix(f"/{CONTROL_FOLDER}")
    local = local_path(place)
    return place if local is None else str(local)


def with_new_path(path: str, content: bytes, *, old: str, new: str) -> bytes:
    """Return the content of a file of a checkpoint for another folder.

    Args:
        path: the file's name in the checkpoint.
        content: what the file contains.
        old: full name of the folder it was written in: a local path or a URL.
        new: full name of the folder it is for.
    """
    if old == new or not contains_absolute_path(path):
        return content
    names = new_names(path, old=old, new=new)
    pattern = re.compile("|".join(map(re.escape, names)))
    return pattern.sub(lambda match: names[match[0]], content.decode()).encode()


def new_names(path: str, *, old: str, new: str) -> Mapping[str, str]:
    """Return spelling of a folder in a file of a checkpoint -> what takes its place. Of two that match, the first."""
    # In the log of a source names are quoted as in a URL, in the metadata they are plain; the last spelling counts.
    quoting = (str, quoted) if path.startswith(f"{SOURCES_FOLDER}/") else (quoted, str)
    spelled: dict[str, str] = {}
    for quote_or_not in quoting:
        after, before = spellings(quote_or_not(new)), spellings(quote_or_not(old))
        spelled |= {f"{one}/": f"{after.get(kind, after['url'])}/" for kind, one in before.items()}
    return spelled


def contains_absolute_path(path: str) -> bool:
    """Return whether Spark writes the full name of the checkpoint into this file of it."""
    return path.startswith(f"{SOURCES_FOLDER}/") or is_description(path)


def is_description(path: str) -> bool:
    """Return whether a file describes the state of an operator; `_metadata` of a store within has its schema."""
    parts = PurePosixPath(path).parts
    return parts[0] == STATE_FOLDER and parts[2:3] == ("_metadata",)


def quoted(folder: str) -> str:
    """Return a name as Java quotes it in a URL."""
    return "".join(one if _is_plain(one) else quote(one, safe=_NOT_QUOTED) for one in folder)


def spellings(folder: str) -> dict[str, str]:
    """Return how Spark writes the full name of a folder."""
    return {"url": folder} if "://" in folder else {"url": f"file://{folder}", "short": f"file:{folder}"}


def _is_plain(character: str) -> bool:
    """Return whether Java leaves a character beyond ASCII as it is: all but spaces and control characters."""
    return not character.isascii() and unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc")


def _descriptions(folder: CheckpointFolder) -> Iterator[str]:
    """Yield the files that describe the operators of the state."""
    for operator in folder.names(STATE_FOLDER):
        yield from _files_in(folder, f"{STATE_FOLDER}/{operator}/_metadata")


def _files_in(folder: CheckpointFolder, inner: str) -> Iterator[str]:
    for path in (f"{inner}/{name}" for name in folder.names(inner)):
        below = [*_files_in(folder, path)]
        yield from below or [path]
