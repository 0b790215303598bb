"""What a savepoint consists of: one JSON file, written last, so a savepoint is complete or does not exist.

Knows names, sizes and checksums; where they live is the archive's business.
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
"""Raised by one whenever the meaning of a manifest changes; every older version is read or refused by name."""

_KIND = "panekeeper savepoint"
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


def checked_name(name: str) -> str:
    """Return the name of a savepoint, or raise `SavepointRefused` if it cannot be one."""
    if not _NAME.fullmatch(name):
        raise SavepointRefused(
            f"{name!r} cannot name a savepoint: take up to 100 letters, digits, '_', '-', '.', but no '.' first"
        )
    return name


def manifest_file(name: str) -> str:
    """Return where in the archive the manifest of a savepoint stands."""
    return f"savepoints/{name}.json"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A savepoint.

    Attributes:
        name: by which it is restored.
        made_at: when, in UTC.
        checkpoint: full name of the folder it is a copy of; Spark wrote it into some of the files.
        job: name of the job.
        job_id: which checkpoint of that job.
        epoch: number of restores before it.
        state_version: version of the stored bytes.
        declaration: fingerprint of the windows.
        batch: the last committed batch: the copy is as of its end.
        unfinished: a batch that was begun and not committed, and is not in the copy; None for a clean stop.
        settings: the Spark settings that the checkpoint pins.
        versions: packages that wrote the checkpoint first.
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
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @property
    def blobs(self) -> dict[str, int]:
        """Names of the blobs it needs, with their sizes."""
        return {file.blob: file.size for file in self.files}

    def encode(self) -> bytes:
        """Return the manifest as bytes, with a checksum of its own."""
        content = {**asdict(self), "made_at": self.made_at.isoformat()}
        whole = {"kind": _KIND, "format": self.format, "sha256": _checksum(content), "content": content}
        return json.dumps(whole, indent=1).encode()

    @staticmethod
    def decode(data: bytes, name: str) -> Manifest:
        """Return the manifest in these bytes; `name` is that of the savepoint they were found under.

        Raises:
            DamagedSavepoint: they are truncated, altered or those of another savepoint.
            ForeignManifest: they are no manifest of ours.
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
