"""How S3 is reached, and how files are stored there. Imports no boto3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from panekeeper.recovery.errors import ArchiveError


@dataclass(frozen=True, kw_only=True)
class S3Options:
    """How S3 is reached, and how files are stored there.

    Credentials are no part of it: boto3 finds them in the environment, a profile or a role.

    Attributes:
        endpoint: URL of a store other than Amazon's; None for Amazon's, or the one in `AWS_ENDPOINT_URL`.
        encryption: server-side encryption of each new object; None leaves it to the bucket.
        kms_key: id of the key for `aws:kms`; None takes the bucket's.
        part_size: bytes of one part of a multipart upload; smaller files are uploaded in one piece.
        attempts: how often a call is tried that fails for another reason than the store itself, with growing delays.
        retry_seconds: how long a call is tried again while the store fails (5xx) or does not respond, in seconds.

    Raises:
        ArchiveError: a KMS key without `aws:kms`.
    """

    endpoint: str | None = None
    encryption: Literal["AES256", "aws:kms"] | None = None
    kms_key: str | None = None
    part_size: int = 16 * 1024 * 1024
    attempts: int = 8
    retry_seconds: float = 60.0

    def __post_init__(self) -> None:
        if self.kms_key is not None and self.encryption != "aws:kms":
            raise ArchiveError(
                f"the KMS key {self.kms_key!r} needs encryption='aws:kms', and encryption is {self.encryption!r}; "
                "give both, or no key"
            )
