"""An archive in S3, by boto3: multipart transfers, retries with back-off, server-side encryption.

Credentials come from boto3's ordinary chain (environment, profile, role). No message of ours holds any: a failure is
told by its code, never by the text of the request.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from recovery.archive import S3Options, Sink
from recovery.errors import ArchiveDenied, ArchiveError, ArchiveNotFound, ArchiveUnreachable
from recovery.patience import Patience

_MISSING = {"404", "NoSuchKey", "NotFound"}
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
}


class S3Archive:
    """An `Archive` under a prefix of a bucket."""

    def __init__(self, location: str, options: S3Options) -> None:
        bucket, _, prefix = location.removeprefix("s3://").partition("/")
        if "@" in bucket:
            raise ArchiveError(
                "credentials do not belong into the location of savepoints; give s3://bucket/prefix and let boto3 "
                "find them (environment, profile or role)"
            )
        if not bucket:
            raise ArchiveError("the location of savepoints names no bucket; give s3://bucket/prefix")
        if importlib.util.find_spec("boto3") is None:
            raise ArchiveError("savepoints in S3 need boto3; install it: pip install 'panekeeper[s3]'")
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._options = options
        self._patience = Patience(options.patience_seconds)
        self._made: Any = None

    @property
    def location(self) -> str:
        """The bucket and prefix, as a URL."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def put_file(self, name: str, path: Path) -> None:
        """Store a copy of a local file, in parts if it is large."""
        with self._told() as client:
            client.upload_file(
                str(path), self._bucket, self._key(name), ExtraArgs=self._encryption(), Config=self._transfer()
            )

    def put_bytes(self, name: str, data: bytes) -> None:
        """Store a small file."""
        with self._told() as client:
            client.put_object(Bucket=self._bucket, Key=self._key(name), Body=data, **self._encryption())

    def get(self, name: str, into: Sink) -> None:
        """Write a file's bytes into `into`. Raises `KeyError` if it is not there."""
        from botocore.exceptions import ClientError

        with self._told() as client:
            try:
                client.download_fileobj(self._bucket, self._key(name), _InOrder(into), Config=self._transfer())
            except ClientError as error:
                if _code(error) in _MISSING:
                    raise KeyError(name) from None
                raise

    def sizes(self, prefix: str = "") -> dict[str, int]:
        """Return name -> bytes of the files whose name begins with `prefix`."""
        with self._told() as client:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._key(prefix))
            found = {one["Key"][len(self._prefix) :]: one["Size"] for page in pages for one in page.get("Contents", ())}
        return dict(sorted(found.items()))

    def exists(self, name: str) -> bool:
        """Say whether a file is there."""
        from botocore.exceptions import ClientError

        with self._told() as client:
            try:
                client.head_object(Bucket=self._bucket, Key=self._key(name))
            except ClientError as error:
                if _code(error) not in _MISSING:
                    raise
                client.head_bucket(Bucket=self._bucket)  # HEAD does not tell a missing key from a missing bucket
                return False
        return True

    def delete(self, name: str) -> None:
        """Remove a file."""
        with self._told() as client:
            client.delete_object(Bucket=self._bucket, Key=self._key(name))

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _client(self) -> Any:
        if self._made is None:
            import boto3
            from botocore.config import Config

            retries = {"mode": "standard", "max_attempts": self._options.attempts}
            config = Config(retries=retries, connect_timeout=10, read_timeout=60)
            self._made = boto3.client("s3", endpoint_url=self._options.endpoint, config=config)
            # boto3's own attempts are over within two seconds, and parallel transfers share them.
            self._made.meta.events.register_first("needs-retry.s3", self._patience.pause)
        return self._made

    def _transfer(self) -> Any:
        from boto3.s3.transfer import TransferConfig

        size = self._options.part_size
        return TransferConfig(multipart_threshold=size, multipart_chunksize=size, num_download_attempts=8)

    def _encryption(self) -> dict[str, str]:
        options = self._options
        given = {"ServerSideEncryption": options.encryption, "SSEKMSKeyId": options.kms_key}
        return {name: value for name, value in given.items() if value is not None}

    @contextmanager
    def _told(self) -> Iterator[Any]:
        """Give the client, and turn what boto3 raises into our errors."""
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield self._client()
        except (ClientError, BotoCoreError, Boto3Error, ValueError) as error:
            raise self._translated(error) from None  # the cause's text may quote the request

    def _translated(self, error: BaseException) -> ArchiveError:
        from botocore import exceptions as said
        from botocore.exceptions import ClientError

        # A transfer wraps what happened into an error of its own.
        inner = error.__context__ if isinstance(error.__context__, ClientError) else error
        code = _code(inner) if isinstance(inner, ClientError) else type(inner).__name__
        if code in _NO_BUCKET or (isinstance(inner, ClientError) and code in _MISSING):
            return ArchiveNotFound(f"the bucket {self._bucket!r} is not there; make it, or name another")
        credentials = (
            said.NoCredentialsError,
            said.PartialCredentialsError,
            said.ProfileNotFound,
            said.TokenRetrievalError,
        )
        if code in _DENIED or isinstance(inner, credentials):
            return ArchiveDenied(
                f"{self.location} refuses these credentials, or there are none ({code}); set them up as for any "
                "program that uses boto3, and permit listing, reading, writing and deleting under this prefix"
            )
        reach = (said.HTTPClientError, said.ConnectionError, said.EndpointConnectionError)
        if isinstance(inner, reach):
            return ArchiveUnreachable(
                f"nobody answers for {self.location} at {self._endpoint()} ({code}); check the URL"
            )
        if isinstance(inner, ValueError):
            return ArchiveUnreachable(f"{self._endpoint()} is no URL of an S3 store; give http(s)://host:port")
        return ArchiveError(f"{self.location} cannot be used: S3 says {code}")

    def _endpoint(self) -> str:
        """Return the endpoint without a user's name or password in it."""
        given = self._options.endpoint
        if given is None:
            return "Amazon's endpoint"
        parts = urlsplit(given)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class _InOrder:
    """Hides that a sink may be seekable: boto3 then writes its parts in order."""

    def __init__(self, sink: Sink) -> None:
        self.write = sink.write


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", "unknown"))
