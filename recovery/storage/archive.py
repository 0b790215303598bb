"""Where savepoints live: named, immutable files in a local folder or under a prefix of an S3 bucket.

Knows nothing of savepoints. Names are relative, with `/` between their parts. A file is there whole or not at all.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from recovery.errors import ArchiveError


class Sink(Protocol):
    """What takes the bytes of a file, piece by piece."""

    def write(self, data: bytes, /) -> object:
        """Take the next piece."""
        ...


class Archive(Protocol):
    """Named files. Every method raises `ArchiveError` if the place cannot be used."""

    @property
    def location(self) -> str:
        """Where it is, in the words `archive_at` takes."""
        ...

    def put_file(self, name: str, path: Path) -> None:
        """Store a copy of a local file, replacing what stood there."""
        ...

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store a small file, replacing what stood there."""
        ...

    def put_new(self, name: str, data: bytes) -> None:
        """Store a small file. Raises `FileExistsError` if it is there: of two that do so at once, one is told."""
        ...

    def get(self, name: str, into: Sink) -> None:
        """Write a file's bytes into `into`. Raises `FileNotFoundError` if it is not there."""
        ...

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """Return name -> bytes of the files whose name begins with `prefix`, sorted by name."""
        ...

    def exists(self, name: str) -> bool:
        """Say whether a file is there."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if it is not there."""
        ...


@dataclass(frozen=True, kw_only=True)
class S3Options:
    """How to reach S3 and how it shall keep the files. Credentials come from boto3's ordinary chain, never from here.

    Attributes:
        endpoint: URL of a store other than Amazon's.
        encryption: server-side encryption; None leaves it to the bucket.
        kms_key: id of the key for `aws:kms`; None takes the bucket's.
        part_size: bytes of one part of a multipart upload; smaller files go in one piece.
        attempts: how often a call is tried that fails for another reason than the store's own, with growing pauses.
        patience_seconds: how long a call goes on trying while the store itself fails, or no longer answers.
    """

    endpoint: str | None = None
    encryption: Literal["AES256", "aws:kms"] | None = None
    kms_key: str | None = None
    part_size: int = 16 * 1024 * 1024
    attempts: int = 8
    patience_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.kms_key is not None and self.encryption != "aws:kms":
            raise ArchiveError("a KMS key needs encryption='aws:kms'; give both, or no key")


def archive_at(location: str | os.PathLike[str], s3: S3Options | None = None) -> Archive:
    """Return the archive at a folder or at `s3://bucket/prefix`; nothing is looked at yet.

    Raises:
        ArchiveError: the location is of no kind that is known, or boto3 is missing.
    """
    from recovery.storage.files import files_at

    files = files_at(location, s3)
    if files is None:
        scheme = os.fspath(location).partition(":")[0]
        raise ArchiveError(f"savepoints live in a local folder or at s3://bucket/prefix, not at {scheme}://...")
    return files
