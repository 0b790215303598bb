# ruff: noqa: D102 -- what the methods of a folder mean is said once, in `Files` and what it inherits
"""S3 by boto3: how it is reached, one client with retries and back-off, and the files under a prefix of a bucket.

boto3 finds the credentials (environment, profile or role). No error message has any of them: it names the code of a
failure, never the text of the request. An object is there whole or not at all; S3 has no folders and no rename. boto3
is imported only when something is sent.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Literal
from urllib.parse import urlsplit

from panekeeper.recovery.errors import (
    ArchiveDenied,
    ArchiveError,
    ArchiveNotFound,
    ArchiveUnreachable,
)
from panekeeper.recovery.storage.archive import ByteSink
from panekeeper.state.checkpoint.clock import monotonic_seconds
from panekeeper.state.checkpoint.folder import JsonFiles, spark_url


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
    "XAdminUserNotFound",  # versitygw, for an unknown key
}
_INITIAL_DELAY, _MAX_DELAY = 0.25, 4.0
_FIRST_SERVER_ERROR = 500


class Bucket:
    """One bucket. Nothing is sent before the first call."""

    def __init__(self, name: str, options: S3Options) -> None:
        if "@" in name or ":" in name:  # a secret may hold a slash: then only its beginning is here
            raise ArchiveError(
                "credentials do not belong in a URL of S3; give s3://bucket/prefix, and let boto3 find them "
                "(environment, profile or role)"
            )
        if not name:
            raise ArchiveError("a URL of S3 names no bucket; give s3://bucket/prefix")
        if importlib.util.find_spec("boto3") is None:
            raise ArchiveError(
                "boto3 is not installed, and S3 cannot be reached without it: pip install 'panekeeper[s3]'"
            )
        self.name = name
        self.options = options
        self._retries = RetryPolicy(options.retry_seconds)
        self._cached_client: Any = None

    @contextmanager
    def client_for(self, place: str) -> Iterator[Any]:
        """Provide the client; errors of boto3 in the block are raised as `ArchiveError`, which names `place`."""
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            client = self._client()
        except ValueError:
            raise ArchiveUnreachable(f"{self._endpoint()} is no URL of an S3 store; give http(s)://host:port") from None
        try:
            yield client
        except (ClientError, BotoCoreError, Boto3Error) as error:
            raise self._to_archive_error(error, place) from None  # the text of the cause may quote the request
        except (LookupError, TypeError, ValueError, RecursionError, ResponseParserError):
            raise self.no_store() from None

    def no_store(self) -> ArchiveUnreachable:
        """Return the error of an endpoint that responds, and not as S3 does."""
        return ArchiveUnreachable(
            f"{self._endpoint()} responds, but not as an S3 store does; give the endpoint of the S3 API, not that of a "
            "web console or a proxy"
        )

    def checked(self, response: dict[str, Any], field: str) -> dict[str, Any]:
        """Return a response that has a field which each store sends: `Name` of a list, `ETag` of an object.

        A web page that was parsed as a response has none, which raises `ArchiveUnreachable`.
        """
        objects = response.get("Contents", ())
        if field not in response or not all({"Key", "Size"} <= s3_object.keys() for s3_object in objects):
            raise self.no_store()
        return response

    def content(self, response: dict[str, Any]) -> bytes:
        """Return the content of a small file, from the response of `get_object`."""
        return bytes(self.checked(response, "ETag")["Body"].read())

    def transfer(self, size: int | None = None) -> Any:
        """Return how a file is transferred: a large one, or one of unknown size, in parts and in parallel."""
        from boto3.s3.transfer import TransferConfig

        part = self.options.part_size
        parallel = size is None or size >= part  # a small one is faster without threads of its own
        return TransferConfig(
            multipart_threshold=part, multipart_chunksize=part, num_download_attempts=8, use_threads=parallel
        )

    def encryption(self) -> dict[str, str]:
        """Return the arguments that encrypt a new object."""
        options = self.options
        given = {"ServerSideEncryption": options.encryption, "SSEKMSKeyId": options.kms_key}
        return {name: value for name, value in given.items() if value is not None}

    def _client(self) -> Any:
        if self._cached_client is None:
            import boto3
            from botocore.config import Config
            from botocore.session import Session

            retries = {"mode": "standard", "max_attempts": self.options.attempts}
            config = Config(retries=retries, connect_timeout=10, read_timeout=60)
            # A session of its own: boto3's default one keeps the first credentials it finds, and is not thread-safe.
            own = Session()
            own.register_component("data_loader", _service_descriptions())
            session = boto3.session.Session(botocore_session=own)
            self._cached_client = session.client("s3", endpoint_url=self.options.endpoint, config=config)
            # boto3's own attempts end within two seconds, and parallel transfers share them.
            self._cached_client.meta.events.register_first("needs-retry.s3", self._retries.retry_delay)
        return self._cached_client

    def _to_archive_error(self, error: BaseException, place: str) -> ArchiveError:
        from botocore import exceptions
        from botocore.exceptions import ClientError

        # A transfer wraps the error of a call into one of its own.
        inner = error.__context__ if isinstance(error.__context__, ClientError) else error
        code = code_of(inner) if isinstance(inner, ClientError) else type(inner).__name__
        if code in _NO_BUCKET or (isinstance(inner, ClientError) and code in MISSING):
            return ArchiveNotFound(f"there is no bucket {self.name!r}; create it, or name another one")
        credentials = (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.ProfileNotFound,
            exceptions.TokenRetrievalError,
        )
        if code in _DENIED or isinstance(inner, credentials):
            return ArchiveDenied(
                f"{place} refuses the credentials, or there are none ({code}); set them up as for any program that "
                "uses boto3, and permit listing, reading, writing and deleting under this prefix"
            )
        unreachable = (exceptions.HTTPClientError, exceptions.ConnectionError, exceptions.EndpointConnectionError)
        if isinstance(inner, unreachable):
            return ArchiveUnreachable(f"{place} does not respond at {self._endpoint()} ({code}); check the URL")
        return ArchiveError(f"{place} cannot be used: S3 responds with {code}")

    def _endpoint(self) -> str:
        """Return the endpoint, without a user name or password."""
        from_environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        given = self.options.endpoint or from_environment
        if given is None:
            return "Amazon's endpoint"
        parts = urlsplit(given)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


@cache
def _service_descriptions() -> Any:
    """Return boto3's descriptions of services: large files, read once."""
    from botocore.loaders import create_loader

    return create_loader()


def code_of(error: Any) -> str:
    """Return the code of an error of S3; of a web page, its status."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", "unknown")
    return str(error.response.get("Error", {}).get("Code") or f"HTTP status {status}")


class RetryPolicy:
    """Tries a call again, for so many seconds from its first failure, after a response of 5xx or a broken connection.

    A store that has not responded yet is more likely a wrong URL: then botocore decides, which gives up soon.
    """

    def __init__(self, seconds: float, now: Callable[[], float] = monotonic_seconds) -> None:
        self._seconds = seconds
        self._now = now
        self._has_responded = False

    def retry_delay(self, *, response: Any, attempts: int, request_dict: dict[str, Any], **_: Any) -> float | None:
        """Return the delay before the next attempt, in seconds; None: botocore decides.

        The time of the first failure of a call is stored in its context.
        """
        if response is not None and response[0].status_code < _FIRST_SERVER_ERROR:
            self._has_responded = True
            return None
        if response is None and not self._has_responded:
            return None
        now = self._now()
        began = request_dict.setdefault("context", {}).setdefault("panekeeper_failing_since", now)
        if now - began >= self._seconds:
            return None
        return min(_INITIAL_DELAY * 2.0 ** min(attempts - 1, 10), _MAX_DELAY)


_ALREADY_EXISTS = {"412", "PreconditionFailed", "ConditionalRequestConflict"}
_MAX_KEYS_OF_A_DELETE = 1000  # S3 deletes no more in one call


class S3Files(JsonFiles):
    """The `Files` under a prefix of a bucket, or in the whole bucket."""

    def __init__(self, bucket: Bucket, prefix: str, shown: str | None = None) -> None:
        self._bucket = bucket
        self._shown = shown
        self._folder = prefix.strip("/")
        self._prefix = f"{self._folder}/" if self._folder else ""

    @staticmethod
    def at(place: str, options: S3Options) -> S3Files:
        """Return the files at `s3://bucket/prefix` or `s3a://bucket/prefix`."""
        bucket, _, prefix = place.partition("://")[2].partition("/")
        return S3Files(Bucket(bucket, options), prefix)

    @property
    def s3(self) -> S3Options:
        return self._bucket.options

    @property
    def location(self) -> str:
        return f"s3://{self._bucket.name}/{self._folder}".rstrip("/")

    @property
    def root(self) -> str:
        return self._shown or self.place

    @property
    def place(self) -> str:
        """The same URL with the scheme that Spark needs, s3a."""
        return spark_url(self.location)

    def child(self, name: str) -> S3Files:
        return S3Files(self._bucket, self._prefix + name)

    def part(self, name: str) -> S3Files:
        return S3Files(self._bucket, self._prefix + name, self.root)

    def folders(self) -> list[str]:
        pages = self._pages(Prefix=self._prefix, Delimiter="/")
        names = [
            folder["Prefix"][len(self._prefix) : -1] for page in pages for folder in page.get("CommonPrefixes", ())
        ]
        return sorted(name for name in names if name and not name.startswith("."))

    def contains(self, location: str) -> bool:
        return f"{location}/".startswith(f"{self.location}/")

    def put_file(self, name: str, path: Path) -> None:
        with self._client() as client:
            client.upload_file(
                str(path),
                self._bucket.name,
                self._key(name),
                ExtraArgs=self._bucket.encryption(),
                Config=self._bucket.transfer(path.stat().st_size),
            )

    def put_bytes(self, name: str, data: bytes) -> None:
        with self._client() as client:
            self._put(client, name, data)

    def put_new(self, name: str, data: bytes) -> None:
        from botocore.exceptions import ClientError

        with self._client() as client:
            try:
                self._put(client, name, data, IfNoneMatch="*")
            except ClientError as error:
                if code_of(error) in _ALREADY_EXISTS:
                    raise FileExistsError(f"{name} in {self.root} is already there") from None
                raise

    def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
        (self.put_bytes if replace else self.put_new)(name, content)

    def swap(self, name: str, old: bytes, new: bytes) -> None:
        from botocore.exceptions import ClientError

        with self._client() as client:
            response = client.get_object(Bucket=self._bucket.name, Key=self._key(name))
            if self._bucket.content(response) == old:
                try:
                    self._put(client, name, new, IfMatch=response["ETag"])
                except ClientError as error:
                    if code_of(error) not in _ALREADY_EXISTS:
                        raise
                else:
                    return
            if self.read(name) != new:  # else the store has repeated a request whose response was lost
                raise FileExistsError(f"{name} in {self.root} was replaced meanwhile")

    @contextmanager
    def open_new(self, name: str) -> Iterator[BinaryIO]:
        with tempfile.NamedTemporaryFile(prefix="panekeeper-") as written:
            yield written  # type: ignore[misc] # a wrapper with all methods of a file
            written.flush()
            self.put_file(name, Path(written.name))

    def get(self, name: str, into: ByteSink) -> None:
        with self._client() as client, self._not_found_as_file_error(name):
            client.download_fileobj(
                self._bucket.name, self._key(name), _UnseekableSink(into), Config=self._bucket.transfer()
            )

    def read(self, name: str) -> bytes:
        with self._client() as client, self._not_found_as_file_error(name):
            return self._bucket.content(client.get_object(Bucket=self._bucket.name, Key=self._key(name)))

    @contextmanager
    def local_copy(self, name: str) -> Iterator[Path]:
        with tempfile.NamedTemporaryFile(prefix="panekeeper-") as copy:
            self.get(name, copy)
            copy.flush()
            yield Path(copy.name)

    def sizes(self, prefix: str = "") -> dict[str, int]:
        sizes = {name: size for name, size in self._listed(prefix) if name and not name.endswith("/")}
        return dict(sorted(sizes.items()))

    def exists(self, name: str = "") -> bool:
        from botocore.exceptions import ClientError

        key = self._key(name).rstrip("/")
        with self._client() as client:
            if name:
                try:
                    self._bucket.checked(client.head_object(Bucket=self._bucket.name, Key=key), "ETag")
                except ClientError as error:
                    if code_of(error) not in MISSING:
                        raise
                else:
                    return True
            below = client.list_objects_v2(Bucket=self._bucket.name, Prefix=f"{key}/" if key else "", MaxKeys=1)
            return "Contents" in self._bucket.checked(below, "Name")

    def names(self, folder: str) -> list[str]:
        top, names = self._key(f"{folder}/" if folder else ""), []
        for page in self._pages(Prefix=top, Delimiter="/"):
            keys = [s3_object["Key"] for s3_object in page.get("Contents", ())]
            keys += [subfolder["Prefix"].rstrip("/") for subfolder in page.get("CommonPrefixes", ())]
            names += [key[len(top) :] for key in keys]
        return sorted(name for name in names if name and not name.startswith("."))

    def remove(self, name: str) -> None:
        with self._client() as client:
            client.delete_object(Bucket=self._bucket.name, Key=self._key(name))

    def clear(self) -> None:
        self._remove_all(name for name, _ in self._listed())

    def _remove_all(self, names: Iterable[str]) -> None:
        keys = sorted(map(self._key, names), reverse=True)  # the marker of a folder after what is in it
        with self._client() as client:
            for first in range(0, len(keys), _MAX_KEYS_OF_A_DELETE):
                some = [{"Key": key} for key in keys[first : first + _MAX_KEYS_OF_A_DELETE]]
                response = client.delete_objects(Bucket=self._bucket.name, Delete={"Objects": some, "Quiet": True})
                for error in response.get("Errors", ()):
                    raise ArchiveError(
                        f"{self.location} cannot be used: S3 refuses to delete objects ({error['Code']})"
                    )

    def _put(self, client: Any, name: str, data: bytes, **conditions: str) -> None:
        conditions |= self._bucket.encryption()
        client.put_object(Bucket=self._bucket.name, Key=self._key(name), Body=data, **conditions)

    def _listed(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Yield name and size of each object, also of the markers that Hadoop writes for folders."""
        for page in self._pages(Prefix=self._key(prefix)):
            for s3_object in page.get("Contents", ()):
                yield s3_object["Key"][len(self._prefix) :], s3_object["Size"]

    def _pages(self, **arguments: str) -> Iterator[dict[str, Any]]:
        with self._client() as client:
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket.name, **arguments):
                yield self._bucket.checked(page, "Name")

    def _key(self, name: str) -> str:
        return self._prefix + name

    def _client(self) -> Any:
        return self._bucket.client_for(self.location)

    @contextmanager
    def _not_found_as_file_error(self, name: str) -> Iterator[None]:
        """Raise `FileNotFoundError` for an object that is not there."""
        from botocore.exceptions import ClientError

        try:
            yield
        except ClientError as error:
            if code_of(error) not in MISSING:
                raise
            raise FileNotFoundError(2, "no such object", f"{self.location}/{name}") from None


class _UnseekableSink:
    """A sink without `seek`, so that boto3 writes the parts of an object in their order."""

    def __init__(self, sink: ByteSink) -> None:
        self.write: Callable[[bytes], object] = sink.write
