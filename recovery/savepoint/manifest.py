"""What a savepoint consists of: one JSON file, written last, so that a savepoint is complete or does not exist.

It has names, sizes and checksums of files; `recovery/storage/blobs.py` stores and reads them. Anyone who can write to a
location can write a manifest with a fitting checksum, and a manifest names the files that a restore writes and the
tables that it takes back (A7). So every field is checked when it is read, before anything is done: names stay within a
checkpoint, sizes and counts are bounded, blobs are checksums. And with a key in the variable PANEKEEPER_MANIFEST_KEY a
manifest is signed, by the HMAC-SHA256 of its content, and one without this signature is not used.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any

from panekeeper.framework.declarations.display import Result, format_bytes
from panekeeper.recovery.errors import (
    DamagedSavepoint,
    ForeignManifest,
    NewerSavepoint,
    SavepointRefused,
    UntrustedSavepoint,
)
from panekeeper.recovery.storage.blobs import SavedFile
from panekeeper.recovery.storage.delta_tables import SavedTable
from panekeeper.state.checkpoint import folder as layout
from panekeeper.state.checkpoint.job_record import MAX_EPOCH, LastSavepoint
from panekeeper.state.table_roles import KINDS, is_role

KEY_VARIABLE = "PANEKEEPER_MANIFEST_KEY"
_MIN_LENGTH = 16

FORMAT_VERSION = 1
"""Goes up when the meaning of a manifest changes; another version is refused by its number."""

_IF_ANY = ("gone",)
"""Fields that are stored only if there is something in them."""

_KIND = "panekeeper savepoint"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


def manifest_key() -> bytes | None:
    """Return the key that manifests are signed with; None if none is set. Raises `SavepointRefused` if it is short.

    It is never repeated in a message.
    """
    key = os.environ.get(KEY_VARIABLE)
    if key is None:
        return None
    data = os.fsencode(key)
    if len(data) < _MIN_LENGTH:
        raise SavepointRefused(
            f"{KEY_VARIABLE} has {len(data)} bytes; give it {_MIN_LENGTH} or more random ones (openssl rand -hex 32), "
            "or unset it"
        )
    return data


_COPIED = (*layout.SPARK_NAMES, layout.OWN_FOLDER, layout.CONTROL_FOLDER)
_NOT_COPIED = (layout.RUNNING_FILE, layout.SAVEPOINT_FILE)
"""Of the folder, not of the job's state."""
_FOLDERS_NOT_COPIED = (f"{layout.CLAIMS_FOLDER}/", f"{layout.PREPARED_FOLDER}/")
"""The same. What is recorded of a batch is for the tables that this folder has written to."""


def is_copied(path: str) -> bool:
    """Return whether a file of a checkpoint is of a kind that a savepoint has.

    Hidden files are Hadoop's checksums of local files: it does not need them, and a savepoint has its own.
    """
    first, _, rest = path.partition("/")
    name = rest.rpartition("/")[2] or first
    is_own = path in _NOT_COPIED or f"{path}/".startswith(_FOLDERS_NOT_COPIED)
    return first in _COPIED and not is_own and not name.startswith(".")


def checked_name(name: str) -> str:
    """Return the name of a savepoint. Raises `SavepointRefused` if it cannot be one."""
    if not _NAME.fullmatch(name):
        raise SavepointRefused(
            f"{name!r} cannot be the name of a savepoint; use up to 100 letters, digits, '_', '-' and '.', "
            "and do not begin with '.'"
        )
    return name


def manifest_file(name: str) -> str:
    """Return the name of a savepoint's manifest in an archive."""
    return f"savepoints/{name}.json"


def savepoint_of_file(file: str) -> str | None:
    """Return the name of the savepoint whose manifest a file of an archive is; None for any other file.

    >>> savepoint_of_file("savepoints/monday.json"), savepoint_of_file("savepoints/.DS_Store")
    ('monday', None)
    """
    name = file.removeprefix("savepoints/").removesuffix(".json")
    return name if file == manifest_file(name) and _NAME.fullmatch(name) else None


@dataclass(frozen=True, kw_only=True)
class Manifest(Result):
    """A savepoint.

    Attributes:
        name: unique in its location.
        made_at: when it was made, in UTC.
        checkpoint: full name of the folder it is a copy of; Spark wrote it into some of the files.
        job: name of the job.
        job_id: id of the checkpoint among those of the job.
        epoch: how often the checkpoint was reset or restored before.
        state_version: version of the stored state.
        declaration: fingerprint of the windows.
        batch: the last committed batch: the copy is as of its end.
        unfinished: a batch that was begun and not committed, and is not in the copy; None for a clean stop.
        settings: the Spark settings that the checkpoint pins.
        versions: packages, and their versions, that created the checkpoint.
        tables: role -> table.
        files: the checkpoint's files, by path.
        format: version of this format.
        gone: role -> path of the tables that were gone when it was made. The start after a restore makes them.
    """

    name: str
    made_at: datetime
    checkpoint: str
    job: str
    job_id: str
    epoch: int
    state_version: int
    declaration: Mapping[str, Any]
    batch: int
    unfinished: int | None
    settings: Mapping[str, str]
    versions: Mapping[str, str]
    tables: Mapping[str, SavedTable]
    files: tuple[SavedFile, ...]
    format: int = field(default=FORMAT_VERSION)
    gone: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> dict[str, str]:
        """Role -> path of all tables of the job, also of those that were gone."""
        return {role: table.path for role, table in self.tables.items()} | dict(self.gone)

    @property
    def size(self) -> int:
        """The size of all files, in bytes."""
        return sum(file.size for file in self.files)

    @property
    def blobs(self) -> dict[str, int]:
        """Name of each blob that it needs -> its size in bytes."""
        return {file.blob: file.size for file in self.files}

    def fields(self) -> dict[str, Any]:
        """Return it as JSON-able fields, with the time to the second."""
        return {**super().fields(), "made_at": self.made_at_text, "bytes": self.size}

    def summary(self) -> dict[str, Any]:
        """Return the fields of a list of savepoints: how many files it has, and the versions of the tables."""
        own = {name: getattr(self, name) for name in ("name", "job", "batch", "unfinished")}
        tables = {role: table.version for role, table in self.tables.items()}
        return {**own, "made_at": self.made_at_text, "files": len(self.files), "bytes": self.size, "tables": tables}

    @property
    def made_at_text(self) -> str:
        """When it was made, to the second."""
        return self.made_at.isoformat(timespec="seconds")

    def _described(self) -> Iterator[str]:
        shown = self.fields()
        first = ("name", "made_at", "job", "job_id", "epoch", "checkpoint", "batch", "unfinished", "state_version")
        yield from (f"{name}: {shown[name]}" for name in first)
        for role, table in self.tables.items():
            yield f"table {role}: {table.path} at version {table.version}"
        yield from (f"table {role}: {path} was gone" for role, path in self.gone.items())
        for group in ("versions", "declaration", "settings"):
            yield from (f"{group} {name}: {value}" for name, value in shown[group].items())
        yield f"files: {len(self.files)}, {format_bytes(self.size)}"

    def noted(self, location: str) -> LastSavepoint:
        """Return what a checkpoint records of it if it is the newest one there, in this location."""
        at = round(self.made_at.timestamp() * 1e6)
        return LastSavepoint(name=self.name, location=location, at=at, batch=self.batch)

    def encode(self, key: bytes | None = None) -> bytes:
        """Return the manifest as bytes, with a checksum of its own, and a signature if there is a key."""
        content = {**asdict(self), "made_at": self.made_at.isoformat()}
        content = {name: value for name, value in content.items() if name not in _IF_ANY or value}
        canonical = _canonical(content)
        whole = {"kind": _KIND, "format": self.format, "sha256": hashlib.sha256(canonical).hexdigest()}
        if key is not None:
            whole["signature"] = _signature(canonical, key).decode()
        return json.dumps({**whole, "content": content}, indent=1).encode()

    @staticmethod
    def decode(data: bytes, name: str, key: bytes | None = None) -> Manifest:
        """Return the manifest that these bytes are, whoever wrote them, in the file that is named for a savepoint.

        Raises an error of `SavepointError`: they are truncated, altered or those of another savepoint, foreign, of a
        newer Panekeeper, or not signed with the key; without one the signature is not checked.
        """
        try:
            content = _content(data, name, key)
            names = {manifest_field.name for manifest_field in fields(Manifest)}
            if not names.difference(_IF_ANY) <= set(content) <= names or content["name"] != name:
                raise DamagedSavepoint(
                    f"the manifest of savepoint {name!r} does not belong to it; use another savepoint"
                )
            values = {field: check(content[field], field) for field, check in _CHECKS.items() if field in content}
            _require_ends_with(values["batch"], values["files"])
            return Manifest(**values)
        except _RuleBroken as error:
            raise _not_allowed(name, str(error)) from error
        except RecursionError as error:
            raise _not_allowed(name, "it is nested too deeply") from error


def _content(data: bytes, name: str, key: bytes | None) -> dict[str, Any]:
    if len(data) > MAX_MANIFEST_BYTES:
        raise _not_allowed(name, f"it has more than {MAX_MANIFEST_BYTES} bytes")
    try:
        whole = json.loads(data)
    except ValueError as error:
        if not data or _KIND.encode() in data[:200]:
            raise DamagedSavepoint(
                f"the manifest of savepoint {name!r} is truncated ({len(data)} bytes); use another savepoint"
            ) from error
        whole = None
    if not isinstance(whole, dict) or whole.get("kind") != _KIND or "format" not in whole:
        raise ForeignManifest(
            f"{manifest_file(name)} was not written by Panekeeper; remove it, or use another location"
        )
    version = whole["format"]
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise NewerSavepoint(
            f"savepoint {name!r} has format {repr(version)[:20]}, this Panekeeper reads format {FORMAT_VERSION}; "
            "use the version that wrote it"
        )
    content = whole.get("content")
    canonical = _canonical(content)
    if not isinstance(content, dict) or hashlib.sha256(canonical).hexdigest() != whole.get("sha256"):
        raise DamagedSavepoint(f"the manifest of savepoint {name!r} fails its checksum; use another savepoint")
    signature = str(whole.get("signature")).encode(errors="replace")
    if key is not None and not hmac.compare_digest(signature, _signature(canonical, key)):
        raise UntrustedSavepoint(
            f"savepoint {name!r} is {'wrongly signed' if 'signature' in whole else 'not signed'}, and {KEY_VARIABLE} "
            "is set. Use a savepoint that was made with this key, or unset the variable if you know who made this one"
        )
    return content


def _not_allowed(name: str, why: str) -> DamagedSavepoint:
    return DamagedSavepoint(
        f"the manifest of savepoint {name!r} has content that Panekeeper never writes ({why}); do not use this "
        "savepoint, and find out who can write to its location"
    )


def _canonical(content: Any) -> bytes:
    """Return the bytes of a manifest's content that are signed, and that the checksum is of."""
    return json.dumps(content, sort_keys=True).encode()


def _signature(canonical: bytes, key: bytes) -> bytes:
    return hmac.new(key, canonical, hashlib.sha256).hexdigest().encode()


MAX_MANIFEST_BYTES = 256 * 2**20

_MAX_NUMBER = 2**63 - 1
"""Of a batch, a version and a size: a long, as in Spark and Delta."""
_MAX_PATH = 4096
_MAX_PART = 255
_SHA256 = re.compile(r"[0-9a-f]{64}")
_JOB_ID = re.compile(r"[0-9a-f]{12}")
_CONTROL_CHARACTERS = ("Cc", "Cs")


class _RuleBroken(Exception):
    """A field of a manifest is not what it may be; the text says which one."""


def _text(value: Any, name: str) -> str:
    """Return a line of text that names something; it is printed, and given to the file system."""
    if not isinstance(value, str) or not value or len(value.encode(errors="replace")) > _MAX_PATH:
        raise _RuleBroken(f"{name} is not text of 1 to {_MAX_PATH} bytes")
    if any(unicodedata.category(character) in _CONTROL_CHARACTERS for character in value):
        raise _RuleBroken(f"{name} has control characters")
    return value


def _number(value: Any, name: str, most: int = _MAX_NUMBER) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise _RuleBroken(f"{name} is not a number from 0 to {most}")
    return value


def _digits(value: Any, name: str, kind: re.Pattern[str] = _SHA256, count: int = 64) -> str:
    if not isinstance(value, str) or kind.fullmatch(value) is None:
        raise _RuleBroken(f"{name} is not {count} hexadecimal digits")
    return value


def _mapping(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _RuleBroken(f"{name} is not an object")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # it could not be printed either
        raise _RuleBroken(f"{name} has text that is not Unicode") from error
    return value


def _texts(value: Any, name: str) -> dict[str, str]:
    texts = _mapping(value, name)
    if not all(isinstance(text, str) for text in texts.values()):
        raise _RuleBroken(f"{name} has values that are not text")
    return texts


def _time(value: Any, name: str) -> datetime:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise _RuleBroken(f"{name} is not a time") from error
    if time.tzinfo is None:
        raise _RuleBroken(f"{name} has no time zone")
    return time


def _folder(value: Any, name: str) -> str:
    """Return the full name of a checkpoint: an absolute path or a URL, without `..`."""
    folder = _text(value, name)
    if not (folder.startswith("/") or "://" in folder) or "\\" in folder or ".." in folder.split("/"):
        raise _RuleBroken(f"{name} is not an absolute path or URL")
    if not folder.strip("/") or any(len(part.encode()) > _MAX_PART for part in folder.split("/")):
        raise _RuleBroken(f"{name} is not the name of a folder")
    return folder


def _tables(value: Any, name: str) -> dict[str, SavedTable]:
    tables = {}
    for role, table in _mapping(value, name).items():
        if not is_role(role) or not isinstance(table, dict) or set(table) != {"path", "version", "sha256"}:
            raise _RuleBroken(f"{name} has more than {', '.join(KINDS)}, each with path, version and sha256")
        tables[role] = SavedTable(
            path=_text(table["path"], f"the path of table {role}"),
            version=_number(table["version"], f"the version of table {role}"),
            sha256=_digits(table["sha256"], f"the sha256 of the commit of table {role}"),
        )
    return tables


def _gone(value: Any, name: str) -> dict[str, str]:
    paths = _mapping(value, name)
    if not all(map(is_role, paths)):
        raise _RuleBroken(f"{name} has more than {', '.join(KINDS)}")
    return {role: _text(path, f"the path of table {role}") for role, path in paths.items()}


def _files(value: Any, name: str) -> tuple[SavedFile, ...]:
    """Return the files; none is there twice, or is the folder of another one."""
    if not isinstance(value, list):
        raise _RuleBroken(f"{name} is not a list")
    saved_files = tuple(map(_file, value))
    paths = [file.path for file in saved_files]
    if layout.JOB_FILE not in paths:
        raise _RuleBroken(f"{name} lacks {layout.JOB_FILE}")
    files, folders = set[str](), set[str]()
    for path in paths:
        if path in files:
            raise _RuleBroken(f"the path {path[:200]!r} of a file is there twice")
        files.add(path)
        folders |= {path[:at] for at, character in enumerate(path) if character == "/"}
    if both := files & folders:
        raise _RuleBroken(f"{min(both)[:200]!r} is a file and a folder")
    return saved_files


def _file(value: Any) -> SavedFile:
    """Return a file: its name is one within a checkpoint, of a kind that a savepoint has, and leads nowhere else."""
    if not isinstance(value, dict) or set(value) != {"path", "size", "sha256"}:
        raise _RuleBroken("a file needs path, size and sha256, and nothing else")
    path = _text(value["path"], "the path of a file")
    if "\\" in path or any(part in ("", ".", "..") or len(part.encode()) > _MAX_PART for part in path.split("/")):
        raise _RuleBroken(f"the path {path[:200]!r} of a file leads out of the checkpoint")
    if unicodedata.normalize("NFC", path) != path:  # a file system may take it for another one
        raise _RuleBroken(f"the path {path[:200]!r} of a file is not normalized")
    if not is_copied(path):
        raise _RuleBroken(f"{path[:200]!r} is not a file that belongs in a savepoint")
    size = _number(value["size"], "the size of a file")
    return SavedFile(path=path, size=size, sha256=_digits(value["sha256"], "the sha256 of a file"))


def _require_ends_with(batch: int, files: Iterable[SavedFile]) -> None:
    """Refuse batches that are not committed: a start would run them, on whatever files of this machine they name."""
    for log in (layout.OFFSETS_FOLDER, layout.COMMITS_FOLDER):
        names = [file.path.removeprefix(f"{log}/") for file in files if file.path.startswith(f"{log}/")]
        are_batches = all(name.isascii() and name.isdecimal() and int(name) <= batch for name in names)
        if str(batch) not in names or not are_batches:
            raise _RuleBroken(f"the files of {log} are not those of batches up to {batch}")


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "name": _text,
    "made_at": _time,
    "checkpoint": _folder,
    "job": _text,
    "job_id": lambda value, name: _digits(value, name, _JOB_ID, 12),  # it stands as a number in the job's tables
    "epoch": lambda value, name: _number(value, name, MAX_EPOCH),
    "state_version": _number,
    "declaration": _mapping,
    "batch": _number,
    "unfinished": lambda value, name: None if value is None else _number(value, name),
    "settings": _texts,
    "versions": _texts,
    "tables": _tables,
    "files": _files,
    "format": _number,
    "gone": _gone,
}
"""Field of a manifest -> what checks and converts it; every field is here."""
