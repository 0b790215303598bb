"""What a savepoint consists of: one JSON file, written last, so that a savepoint is complete or does not exist.

It has names, sizes and checksums of files; `recovery/storage/blobs.py` stores and reads them. What is read may have
been written by anyone: `manifest_rules.py` says what it may contain.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any

from panekeeper.recovery.errors import (
    DamagedSavepoint,
    ForeignManifest,
    NewerSavepoint,
    SavepointRefused,
    UntrustedSavepoint,
)
from panekeeper.recovery.savepoint.manifest_rules import MAX_MANIFEST_BYTES, RuleBroken, checked_fields
from panekeeper.recovery.savepoint.signature import KEY_VARIABLE, is_signed, signature_of
from panekeeper.recovery.storage.blobs import SavedFile
from panekeeper.recovery.storage.delta_log import SavedTable
from panekeeper.state.checkpoint.last_savepoint import LastSavepoint

FORMAT_VERSION = 1
"""Goes up when the meaning of a manifest changes; another version is refused by its number."""

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

    def noted(self, location: str) -> LastSavepoint:
        """Return what a checkpoint records of it if it is the newest one there, in this location."""
        at = round(self.made_at.timestamp() * 1e6)
        return LastSavepoint(name=self.name, location=location, at=at, batch=self.batch)

    def encode(self, key: bytes | None = None) -> bytes:
        """Return the manifest as bytes, with a checksum of its own.

        Args:
            key: signs it; without one, it has no signature.
        """
        content = {**asdict(self), "made_at": self.made_at.isoformat()}
        canonical = _canonical(content)
        whole = {"kind": _KIND, "format": self.format, "sha256": hashlib.sha256(canonical).hexdigest()}
        if key is not None:
            whole["signature"] = signature_of(canonical, key)
        return json.dumps({**whole, "content": content}, indent=1).encode()

    @staticmethod
    def decode(data: bytes, name: str, key: bytes | None = None) -> Manifest:
        """Return the manifest that these bytes are, whoever wrote them.

        Args:
            data: the content of the file.
            name: of the savepoint that the file is named for.
            key: what it must be signed with; None: the signature is not checked.

        Raises:
            DamagedSavepoint: they are truncated, altered or those of another savepoint, or a field is not allowed.
            ForeignManifest: they were not written by Panekeeper.
            NewerSavepoint: a newer Panekeeper wrote them.
            UntrustedSavepoint: they are not signed with the key.
        """
        try:
            content = _content(data, name, key)
            if set(content) != {one.name for one in fields(Manifest)} or content["name"] != name:
                raise DamagedSavepoint(
                    f"the manifest of savepoint {name!r} does not belong to it; use another savepoint"
                )
            return Manifest(**checked_fields(content))
        except RuleBroken as error:
            raise _not_allowed(name, str(error)) from error
        except RecursionError as error:
            raise _not_allowed(name, "it is nested too deeply") from error


def _content(data: bytes, name: str, key: bytes | None) -> dict[str, Any]:
    if len(data) > MAX_MANIFEST_BYTES:
        raise _not_allowed(name, f"it has more than {MAX_MANIFEST_BYTES} bytes")
    try:
        whole = json.loads(data)
    except ValueError as error:
        raise _unreadable(data, name) from error
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
    if key is not None and not is_signed(canonical, whole.get("signature"), key):
        raise UntrustedSavepoint(
            f"savepoint {name!r} is {'wrongly signed' if 'signature' in whole else 'not signed'}, and {KEY_VARIABLE} "
            "is set: use one that was made with this key; or, if you know who made this one, unset the variable"
        )
    return content


def _unreadable(data: bytes, name: str) -> DamagedSavepoint | ForeignManifest:
    if not data or _KIND.encode() in data[:200]:
        return DamagedSavepoint(
            f"the manifest of savepoint {name!r} is truncated ({len(data)} bytes); use another savepoint"
        )
    return ForeignManifest(f"{manifest_file(name)} was not written by Panekeeper; remove it, or use another location")


def _not_allowed(name: str, why: str) -> DamagedSavepoint:
    return DamagedSavepoint(
        f"the manifest of savepoint {name!r} has content that Panekeeper never writes ({why}); do not use this "
        "savepoint, and find out who can write to its location"
    )


def _canonical(content: Any) -> bytes:
    """Return the bytes of a manifest's content that are signed, and that the checksum is of."""
    return json.dumps(content, sort_keys=True).encode()
