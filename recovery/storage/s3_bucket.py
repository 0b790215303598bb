"""A bucket of S3 by boto3: one client with retries and back-off, and what its errors mean.

boto3 finds the credentials (environment, profile or role). No error message has any of them: it names the code of a
failure, never the text of the request.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from panekeeper.recovery.errors import ArchiveDenied, ArchiveError, ArchiveNotFound, ArchiveUnreachable
from panekeeper.recovery.storage.s3_options import S3Options
from panekeeper.state.checkpoint.clock import monotonic_seconds

MISSING = {"404", "NoSuchKey", "NotFound"}
_PIECE = 2**20
_MAX_CONTENT = 2**30
"""Of a file that is read as a whole: no log of Spark or Delta is as large."""
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
    """One bucket. Nothing is sent before the first call.

    Args:
        name: of the bucket.
        options: how it is reached.

    Raises:
        ArchiveError: the name is empty or holds credentials, or boto3 is not installed.
    """

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
        self._options = options
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
            f"{self._endpoint()} responds, but not as an S3 store does; give the endpoint of its API, which is not "
            "that of its web console, and check that no proxy responds in its place"
        )

    def checked(self, response: dict[str, Any], field: str) -> dict[str, Any]:
        """Return a response that has a field which each store sends; a web page that was parsed as one has none.

        Args:
            response: as boto3 returns it.
            field: `Name` of a list, `ETag` of an object.

        Raises:
            ArchiveUnreachable: it lacks the field.
        """
        objects = response.get("Contents", ())
        if field not in response or not all({"Key", "Size"} <= one.keys() for one in objects):
            raise self.no_store()
        return response

    def content(self, response: dict[str, Any]) -> bytes:
        """Return the content of a small file, read piece by piece: a store may send, or announce, any number of bytes.

        Args:
            response: of `get_object`.

        Raises:
            ArchiveError: it is too large.
        """
        found = bytearray()
        for piece in self.checked(response, "ETag")["Body"].iter_chunks(_PIECE):
            found += piece
            if len(found) > _MAX_CONTENT:
                raise ArchiveError(f"a small file in the bucket {self.name!r} has more than {_MAX_CONTENT} bytes")
        return bytes(found)

    def transfer(self, size: int | None = None) -> Any:
        """Return how a file is transferred: a large one in parts and in parallel.

        Args:
            size: its bytes; None if not known.
        """
        from boto3.s3.transfer import TransferConfig

        part = self._options.part_size
        parallel = size is None or size >= part  # a small one is faster without threads of its own
        return TransferConfig(
            multipart_threshold=part, multipart_chunksize=part, num_download_attempts=8, use_threads=parallel
        )

    def encryption(self) -> dict[str, str]:
        """Return the arguments that encrypt a new object."""
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
            # A session of its own: boto3's default one keeps the first credentials it finds, and is not thread-safe.
            own = Session()
            own.register_component("data_loader", _service_descriptions())
            session = boto3.session.Session(botocore_session=own)
            self._cached_client = session.client("s3", endpoint_url=self._options.endpoint, config=config)
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
        given = self._options.endpoint or from_environment
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
    """Tries a call again after a response of 5xx or a broken connection.

    A store that has not responded yet is more likely a wrong URL: then botocore decides, which gives up soon.

    Args:
        seconds: how long, from the first failure of the call.
        now: returns the time, in seconds.
    """

    def __init__(self, seconds: float, now: Callable[[], float] = monotonic_seconds) -> None:
        self._seconds = seconds
        self._now = now
        self._has_responded = False

    def retry_delay(self, *, response: Any, attempts: int, request_dict: dict[str, Any], **_: Any) -> float | None:
        """Return the delay before the next attempt, in seconds; None: botocore decides.

        Args:
            response: (HTTP response, parsed response); None if there was none.
            attempts: how often this call was tried.
            request_dict: the call; the time of its first failure is stored in its context.
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
