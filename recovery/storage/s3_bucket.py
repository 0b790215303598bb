"""A bucket of S3, by boto3: one client with retries and back-off, and what goes wrong, told in our words.

Credentials come from boto3's ordinary chain (environment, profile, role). No message of ours holds any: a failure is
told by its code, never by the text of the request.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from recovery.errors import ArchiveDenied, ArchiveError, ArchiveNotFound, ArchiveUnreachable
from recovery.storage.s3_options import S3Options
from recovery.storage.s3_retry import RetryPolicy

MISSING = {"404", "NoSuchKey", "NotFound"}
_NO_BUCKET = {"NoSuchBucket"}
_DENIED = {
    "401",
    "403",
    "AccessDenied",
    "AllAccessDisabled",
    "ExpiredToken",
    "Forbidden",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "XAdminUserNotFound",  # versitygw's word for an unknown key
}


class Bucket:
    """One bucket, and how it is reached. Nothing is looked at before the first call."""

    def __init__(self, name: str, options: S3Options) -> None:
        if "@" in name or ":" in name:  # a secret may hold a slash: then only its beginning stands here
            raise ArchiveError(
                "credentials do not belong into the name of a place on S3; give s3://bucket/prefix and let boto3 "
                "find them (environment, profile or role)"
            )
        if not name:
            raise ArchiveError("a place on S3 names no bucket; give s3://bucket/prefix")
        if importlib.util.find_spec("boto3") is None:
            raise ArchiveError("what lies on S3 is reached by boto3; install it: pip install 'panekeeper[s3]'")
        self.name = name
        self._options = options
        self._retries = RetryPolicy(options.retry_seconds)
        self._cached_client: Any = None

    @contextmanager
    def client_for(self, place: str) -> Iterator[Any]:
        """Give the client, and turn what boto3 raises into our errors, which name `place`."""
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield self._client()
        except (ClientError, BotoCoreError, Boto3Error, ValueError) as error:
            raise self._to_archive_error(error, place) from None  # the cause's text may quote the request

    def transfer(self, size: int | None = None) -> Any:
        """Return how a file of so many bytes goes: a large one in parts, side by side; None if that is not known."""
        from boto3.s3.transfer import TransferConfig

        part = self._options.part_size
        parallel = size is None or size >= part  # a small one goes faster without threads of its own
        return TransferConfig(
            multipart_threshold=part, multipart_chunksize=part, num_download_attempts=8, use_threads=parallel
        )

    def encryption(self) -> dict[str, str]:
        """Return what each new object is to be encrypted with."""
        options = self._options
        given = {"ServerSideEncryption": options.encryption, "SSEKMSKeyId": options.kms_key}
        return {name: value for name, value in given.items() if value is not None}

    def _client(self) -> Any:
        if self._cached_client is None:
            import boto3
            from botocore.config import Config
            from botocore.session import Session

            retries = {"mode": "standard", "max_attempts": self._options.attempts}
            config = Config(retries=retries, connect_timeout=10, read_timeout=60)
            # A session of its own: boto3's common one keeps the first credentials it finds, and is not for threads.
            own = Session()
            own.register_component("data_loader", _service_descriptions())
            session = boto3.session.Session(botocore_session=own)
            self._cached_client = session.client("s3", endpoint_url=self._options.endpoint, config=config)
            # boto3's own attempts are over within two seconds, and parallel transfers share them.
            self._cached_client.meta.events.register_first("needs-retry.s3", self._retries.retry_delay)
        return self._cached_client

    def _to_archive_error(self, error: BaseException, place: str) -> ArchiveError:
        from botocore import exceptions as said
        from botocore.exceptions import ClientError

        # A transfer wraps what happened into an error of its own.
        inner = error.__context__ if isinstance(error.__context__, ClientError) else error
        code = code_of(inner) if isinstance(inner, ClientError) else type(inner).__name__
        if code in _NO_BUCKET or (isinstance(inner, ClientError) and code in MISSING):
            return ArchiveNotFound(f"the bucket {self.name!r} is not there; make it, or name another")
        credentials = (
            said.NoCredentialsError,
            said.PartialCredentialsError,
            said.ProfileNotFound,
            said.TokenRetrievalError,
        )
        if code in _DENIED or isinstance(inner, credentials):
            return ArchiveDenied(
                f"{place} refuses these credentials, or there are none ({code}); set them up as for any "
                "program that uses boto3, and permit listing, reading, writing and deleting under this prefix"
            )
        reach = (said.HTTPClientError, said.ConnectionError, said.EndpointConnectionError)
        if isinstance(inner, reach):
            return ArchiveUnreachable(f"nobody answers for {place} at {self._endpoint()} ({code}); check the URL")
        if isinstance(inner, ValueError):
            return ArchiveUnreachable(f"{self._endpoint()} is no URL of an S3 store; give http(s)://host:port")
        return ArchiveError(f"{place} cannot be used: S3 says {code}")

    def _endpoint(self) -> str:
        """Return the endpoint without a user's name or password in it."""
        known = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        given = self._options.endpoint or known
        if given is None:
            return "Amazon's endpoint"
        parts = urlsplit(given)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@cache
def _service_descriptions() -> Any:
    """What boto3 knows of Amazon's services: large files, read once."""
    from botocore.loaders import create_loader

    return create_loader()


def code_of(error: Any) -> str:
    """Return what S3 calls an error."""
    return str(error.response.get("Error", {}).get("Code", "unknown"))
