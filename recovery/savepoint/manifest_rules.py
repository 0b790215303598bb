"""Which content a manifest may have: anyone who can write to a location can write a manifest with a fitting checksum.

A manifest names the files that a restore writes, and the tables that it takes back. So every field is checked when it
is read, before anything is done: names stay within a checkpoint, sizes and counts are bounded, blobs are checksums.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from panekeeper.recovery.savepoint.checkpoint_reader import COPIED, FOLDERS_NOT_COPIED, NOT_COPIED
from panekeeper.recovery.storage.blobs import SavedFile
from panekeeper.recovery.storage.delta_log import SavedTable
from panekeeper.state.checkpoint.job_record import MAX_EPOCH
from panekeeper.state.checkpoint.layout import (
    COMMITS_FOLDER,
    JOB_FILE,
    OFFSETS_FOLDER,
    SOURCES_FOLDER,
    STATE_FOLDER,
)

MAX_MANIFEST_BYTES = 256 * 2**20
MAX_FILES = 1_000_000
MAX_BYTES = 2**50
"""Of all files of a savepoint together, and of each of them: a petabyte."""
MAX_SMALL_BYTES = 64 * 2**20
"""Of a file that is read as a whole: all but those of the state and the logs of the sources."""
MAX_NUMBER = 2**63 - 1
"""Of a batch and a version: a long, as in Spark and Delta."""
ROLES = ("log", "view", "quarantine", "metrics", "downtime")
"""The tables that a job can have."""

_MAX_PATH = 4096
_MAX_PART = 255
_SHA256 = re.compile(r"[0-9a-f]{64}")
_JOB_ID = re.compile(r"[0-9a-f]{12}")
_CONTROL_CHARACTERS = ("Cc", "Cs")


class RuleBroken(Exception):
    """A field of a manifest is not what it may be; the text says which one."""


def checked_fields(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a manifest, as `Manifest` takes them.

    Args:
        content: the fields as they were read, with any value.

    Raises:
        RuleBroken: a value is not allowed.
    """
    found = {name: check(content[name], name) for name, check in _CHECKS.items()}
    _require_ends_with(found["batch"], found["files"])
    return found


def _text(value: Any, name: str) -> str:
    """Return a line of text that names something; it is printed, and given to the file system."""
    if not isinstance(value, str) or not value or len(value.encode(errors="replace")) > _MAX_PATH:
        raise RuleBroken(f"{name} is not text of 1 to {_MAX_PATH} bytes")
    if any(unicodedata.category(character) in _CONTROL_CHARACTERS for character in value):
        raise RuleBroken(f"{name} has control characters")
    return value


def _number(value: Any, name: str, most: int = MAX_NUMBER) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise RuleBroken(f"{name} is not a number from 0 to {most}")
    return value


def _epoch(value: Any, name: str) -> int:
    return _number(value, name, MAX_EPOCH)


def _job_id(value: Any, name: str) -> str:
    """Return the id of a checkpoint, which stands as a number in its tables."""
    if not isinstance(value, str) or _JOB_ID.fullmatch(value) is None:
        raise RuleBroken(f"{name} is not 12 hexadecimal digits")
    return value


def _number_or_none(value: Any, name: str) -> int | None:
    return None if value is None else _number(value, name)


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RuleBroken(f"{name} is not an object")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # it could not be printed either
        raise RuleBroken(f"{name} has text that is not Unicode") from error
    return value


def _texts(value: Any, name: str) -> dict[str, str]:
    found = _mapping(value, name)
    if not all(isinstance(one, str) for one in found.values()):
        raise RuleBroken(f"{name} has values that are not text")
    return found


def _time(value: Any, name: str) -> datetime:
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise RuleBroken(f"{name} is not a time") from error
    if found.tzinfo is None:
        raise RuleBroken(f"{name} has no time zone")
    return found


def _folder(value: Any, name: str) -> str:
    """Return the full name of a checkpoint: an absolute path or a URL, without `..`."""
    folder = _text(value, name)
    if not (folder.startswith("/") or "://" in folder) or "\\" in folder or ".." in folder.split("/"):
        raise RuleBroken(f"{name} is not an absolute path or URL")
    if not folder.strip("/") or any(len(part.encode()) > _MAX_PART for part in folder.split("/")):
        raise RuleBroken(f"{name} is not the name of a folder")
    return folder


def _tables(value: Any, name: str) -> dict[str, SavedTable]:
    found = {}
    for role, table in _mapping(value, name).items():
        if role not in ROLES or not isinstance(table, dict) or set(table) != {"path", "version", "sha256"}:
            raise RuleBroken(f"{name} has more than {', '.join(ROLES)}, each with path, version and sha256")
        path, of_it = _text(table["path"], f"the path of table {role}"), f"of the commit of table {role}"
        version = _number(table["version"], f"the version of table {role}")
        checksum = table["sha256"]
        found[role] = SavedTable(
            path=path, version=version, sha256=None if checksum is None else _checksum(checksum, of_it)
        )
    return found


def _files(value: Any, name: str) -> tuple[SavedFile, ...]:
    if not isinstance(value, list) or len(value) > MAX_FILES:
        raise RuleBroken(f"{name} is not a list of up to {MAX_FILES}")
    files = tuple(map(_file, value))
    paths = [file.path for file in files]
    if JOB_FILE not in paths:
        raise RuleBroken(f"{name} lacks {JOB_FILE}")
    if sum(file.size for file in files) > MAX_BYTES:
        raise RuleBroken(f"{name} have more than {MAX_BYTES} bytes together")
    _require_distinct(paths)
    return files


def _file(value: Any) -> SavedFile:
    if not isinstance(value, dict) or set(value) != {"path", "size", "sha256"}:
        raise RuleBroken("a file needs path, size and sha256, and nothing else")
    checksum = _checksum(value["sha256"], "of a file")
    path, size = _path(value["path"]), _number(value["size"], "the size of a file", MAX_BYTES)
    if size > MAX_SMALL_BYTES and path.partition("/")[0] not in (STATE_FOLDER, SOURCES_FOLDER):
        raise RuleBroken(f"{path[:200]!r} has {size} bytes, and no file of its kind more than {MAX_SMALL_BYTES}")
    return SavedFile(path=path, size=size, sha256=checksum)


def _checksum(value: Any, of_what: str) -> str:
    if not isinstance(value, str) or _SHA256.fullmatch(value) is None:
        raise RuleBroken(f"the sha256 {of_what} is not 64 hexadecimal digits")
    return value


def _path(value: Any) -> str:
    """Return the name of a file within a checkpoint: of a kind that a savepoint copies, and nothing that leads out."""
    path = _text(value, "the path of a file")
    parts = path.split("/")
    if "\\" in path or any(part in ("", ".", "..") or len(part.encode()) > _MAX_PART for part in parts):
        raise RuleBroken(f"the path {path[:200]!r} of a file leads out of the checkpoint")
    if unicodedata.normalize("NFC", path) != path:
        raise RuleBroken(f"the path {path[:200]!r} of a file is not normalized")
    is_copied = parts[0] in COPIED and path not in NOT_COPIED and not f"{path}/".startswith(FOLDERS_NOT_COPIED)
    if not is_copied or parts[-1].startswith("."):
        raise RuleBroken(f"{path[:200]!r} is not a file that belongs in a savepoint")
    return path


def _require_distinct(paths: Iterable[str]) -> None:
    """Refuse a path that is there twice, or is the folder of another one."""
    files: set[str] = set()
    folders: set[str] = set()
    for path in paths:
        if path in files:
            raise RuleBroken(f"the path {path[:200]!r} of a file is there twice")
        files.add(path)
        folders |= {path[:at] for at, character in enumerate(path) if character == "/"}
    both = files & folders
    if both:
        raise RuleBroken(f"{min(both)[:200]!r} is a file and a folder")


def _require_ends_with(batch: int, files: Iterable[SavedFile]) -> None:
    """Refuse batches that are not committed: a start would run them, on whatever files of this machine they name."""
    for log in (OFFSETS_FOLDER, COMMITS_FOLDER):
        names = [file.path.removeprefix(f"{log}/") for file in files if file.path.startswith(f"{log}/")]
        if str(batch) not in names or not all(_is_batch_up_to(batch, name) for name in names):
            raise RuleBroken(f"the files of {log} are not those of batches up to {batch}")


def _is_batch_up_to(batch: int, name: str) -> bool:
    return name.isascii() and name.isdecimal() and int(name) <= batch


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "name": _text,
    "made_at": _time,
    "checkpoint": _folder,
    "job": _text,
    "job_id": _job_id,
    "epoch": _epoch,
    "state_version": _number,
    "declaration": _mapping,
    "batch": _number,
    "unfinished": _number_or_none,
    "settings": _texts,
    "versions": _texts,
    "tables": _tables,
    "files": _files,
    "format": _number,
}
"""Field of a manifest -> what checks and converts it; every field is here."""
