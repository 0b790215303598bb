"""What a savepoint consists of: one JSON file, written last, so that a savepoint is complete or does not exist.

It has names, sizes and checksums of files; `recovery/storage/blobs.py` stores and reads them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any

from recovery.errors import DamagedSavepoint, ForeignManifest, NewerSavepoint, SavepointRefused
from recovery.storage.blobs import SavedFile
from recovery.storage.delta_log import SavedTable

FORMAT_VERSION = 1
"""Goes up when the meaning of a manifest changes; every older version is read, or refused with its number."""

_KIND = "panekeeper savepoint"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


def checked_name(name: str) -> str:
    """Return the name of a savepoint.

    Raises:
        SavepointRefused: it cannot be one.
    """
    if not _NAME.fullmatch(name):
        raise SavepointRefused(
            f"{name!r} cannot be the name of a savepoint; use up to 100 letters, digits, '_', '-' and '.', "
            "and begin with no '.'"
        )
    return name


def manifest_file(name: str) -> str:
    """Return the name of a savepoint's manifest in an archive."""
    return f"savepoints/{name}.json"


@dataclass(frozen=True, kw_only=True)
class Manifest:
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

    @property
    def size(self) -> int:
        """The size of all files, in bytes."""
        return sum(file.size for file in self.files)

    @property
    def blobs(self) -> dict[str, int]:
        """Name of each blob that it needs -> its size in bytes."""
        return {file.blob: file.size for file in self.files}

    def encode(self) -> bytes:
        """Return the manifest as bytes, with a checksum of its own."""
        content = {**asdict(self), "made_at": self.made_at.isoformat()}
        whole = {"kind": _KIND, "format": self.format, "sha256": _checksum(content), "content": content}
        return json.dumps(whole, indent=1).encode()

    @staticmethod
    def decode(data: bytes, name: str) -> Manifest:
        """Return the manifest that these bytes are.

        Args:
            data: the content of the file.
            name: of the savepoint that the file is named for.

        Raises:
            DamagedSavepoint: they are truncated, altered or those of another savepoint.
            ForeignManifest: they were not written by Panekeeper.
            NewerSavepoint: a newer Panekeeper wrote them.
        """
        content = _content(data, name)
        if set(content) != {one.name for one in fields(Manifest)} or content["name"] != name:
            raise DamagedSavepoint(f"the manifest of savepoint {name!r} does not belong to it; use another savepoint")
        tables = {role: SavedTable(**table) for role, table in content["tables"].items()}
        files = tuple(SavedFile(**file) for file in content["files"])
        made_at = datetime.fromisoformat(content["made_at"])
        return Manifest(**{**content, "made_at": made_at, "tables": tables, "files": files})


def _content(data: bytes, name: str) -> dict[str, Any]:
    try:
        whole = json.loads(data)
    except ValueError as error:
        raise _unreadable(data, name) from error
    if not isinstance(whole, dict) or whole.get("kind") != _KIND or "format" not in whole:
        raise ForeignManifest(
            f"{manifest_file(name)} was not written by Panekeeper; remove it, or use another location"
        )
    if not isinstance(whole["format"], int) or whole["format"] > FORMAT_VERSION:
        raise NewerSavepoint(
            f"savepoint {name!r} has format {whole['format']}, this Panekeeper reads up to {FORMAT_VERSION}; "
            "use the version that wrote it"
        )
    content = whole.get("content")
    if not isinstance(content, dict) or _checksum(content) != whole.get("sha256"):
        raise DamagedSavepoint(f"the manifest of savepoint {name!r} fails its checksum; use another savepoint")
    return content


def _unreadable(data: bytes, name: str) -> DamagedSavepoint | ForeignManifest:
    if not data or _KIND.encode() in data[:200]:
        return DamagedSavepoint(
            f"the manifest of savepoint {name!r} is truncated ({len(data)} bytes); use another savepoint"
        )
    return ForeignManifest(f"{manifest_file(name)} was not written by Panekeeper; remove it, or use another location")


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
