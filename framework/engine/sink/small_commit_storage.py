"""How the library that commits small outputs reaches a table: on a local disk, or on S3 as Hadoop's `s3a` does.

On any other file system a table is written by Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from deltalake.exceptions import CommitFailedError

from panekeeper.framework.declarations.errors import OutputNotWritable, SinkError
from panekeeper.framework.engine.sink.small_commit_checks import UnreachableTable, UnsupportedTable
from panekeeper.state.checkpoint.folder import local_path

S3A_SETTINGS = (
    "endpoint",
    "endpoint.region",
    "path.style.access",
    "connection.ssl.enabled",
    "access.key",
    "secret.key",
    "session.token",
    "aws.credentials.provider",
    "encryption.algorithm",
    "server-side-encryption-algorithm",
    "acl.default",
    "requester.pays.enabled",
)
"""Settings of Hadoop's `fs.s3a` that say where a store is, who we are there, and how files are stored."""

# Hadoop's own list. Keys and tokens in settings and in the environment are among `S3A_SETTINGS`: Spark copies them
# there; the role of a machine is found by the library, too.
_PROVIDERS = frozenset(
    {
        "TemporaryAWSCredentialsProvider",
        "SimpleAWSCredentialsProvider",
        "EnvironmentVariableCredentialsProvider",
        "IAMInstanceCredentialsProvider",
    }
)

_NOT_TEXT = re.compile(r"\x1b\[\d*m|\u21b3")  # colours and arrows in the library's errors
_LONGEST_REASON = 400
_AGAIN_AND_AGAIN = re.compile(r"after \d+ retries")
"""Of the library's errors: a store that is away, or overloaded. What it refuses is not tried again."""
_MISREAD = re.compile(r"[\x00-\x1f\x7f%\[\\\]^|]")
_ENDS_A_URL = re.compile(r"[#?]|\s$")


def not_opened(error: Exception) -> UnsupportedTable:
    """Return why the library does not open a table: it cannot read it, or the store did not respond to any attempt."""
    why = _one_line(error)
    is_away = _AGAIN_AND_AGAIN.search(why) is not None and "certificate" not in why.lower()
    return (UnreachableTable if is_away else UnsupportedTable)(f"the library cannot open it: {why}")


def not_committed(url: str, version: int, error: Exception, attempts: int) -> SinkError:
    """Return the error of a batch that the library could not commit.

    Args:
        url: of the table.
        version: of the batch.
        error: of the last attempt.
        attempts: how many there were, if other writers came first.
    """
    why = _one_line(error)
    if isinstance(error, CommitFailedError):
        return SinkError(
            f"{url}: batch {version} is not committed, because other writers came first at each of {attempts} attempts "
            f"({why}). Start the job again when they have ended: it resumes with the same batch"
        )
    return OutputNotWritable(
        f"{url} cannot be written: {why}. Make it writable, with room on its disk, and start the job again: it resumes "
        f"with batch {version}"
    )


def _one_line(error: Exception) -> str:
    return " ".join(_NOT_TEXT.sub(" ", str(error)).split())[:_LONGEST_REASON]


def require_plain_name(url: str) -> None:
    """Raise `UnsupportedTable` for a name by which the library would not reach the folder that Spark reaches.

    It reads the log of `a%20b` in the folder `a b`, and writes to `a%20b`; a backslash it takes for `/` in one of the
    two. A panic ends its commits to a folder with `[`, `]`, `^` or `|`. On S3, `#` and `?` end the name.

    Args:
        url: the table's folder, or `s3a://bucket/path`.
    """
    found = _MISREAD.search(url) or ("://" in url and _ENDS_A_URL.search(url))
    if found:
        raise UnsupportedTable(f"the library does not reach a folder with {found[0]!r} in its name as Spark does")


def table_url(path: str) -> str:
    """Return the name of a table's folder for the library.

    Args:
        path: as Spark names it: a path, a `file:` URL, or `s3a://bucket/path`.

    Raises:
        UnsupportedTable: the library does not reach it.
    """
    folder = local_folder(path)
    if folder is None and not path.startswith("s3a://"):
        raise UnsupportedTable(f"{path} is neither on a local disk nor on S3")
    require_plain_name(folder or path)
    return folder or path


def local_folder(path: str) -> str | None:
    """Return the folder on a local disk that a path or `file:` URL names; None if it is elsewhere.

    As Hadoop reads it: `%20`, `#` and `?` in a URL are characters of the folder's name.

    >>> local_folder("file:/data/log"), local_folder("/data/log"), local_folder("hdfs://host/log")
    ('/data/log', '/data/log', None)
    """
    if path.startswith("/"):
        return path
    folder = local_path(path) if path.startswith(("file:///", "file:/")) else None
    return None if folder is None or _has_host(path) else str(folder)


def _has_host(url: str) -> bool:
    return url.startswith("file://") and not url.startswith("file:///")


def storage_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the library's options for the store and the credentials that Spark uses on S3.

    Commits are conditional writes: S3 refuses the second of two commits of one version.

    Args:
        settings: those of `S3A_SETTINGS` that have a value.

    Raises:
        UnsupportedTable: a setting has no counterpart in the library, such as encryption by a key.
    """
    for name in ("encryption.algorithm", "server-side-encryption-algorithm", "acl.default"):
        if settings.get(name):
            raise UnsupportedTable(f"the setting fs.s3a.{name} is {settings[name]!r}")
    if settings.get("requester.pays.enabled", "false").lower() == "true":
        raise UnsupportedTable("the setting fs.s3a.requester.pays.enabled is 'true'")
    providers = [one.strip() for one in settings.get("aws.credentials.provider", "").split(",") if one.strip()]
    for provider in providers:
        if provider.rpartition(".")[2] not in _PROVIDERS:
            raise UnsupportedTable(f"the credentials on S3 come from {provider}")
    options = {"aws_conditional_put": "etag"}
    names = {"aws_access_key_id": "access.key", "aws_secret_access_key": "secret.key"}
    names |= {"aws_session_token": "session.token", "aws_region": "endpoint.region"}
    options |= {option: settings[name] for option, name in names.items() if settings.get(name)}
    return options | _endpoint(settings)


def _endpoint(settings: Mapping[str, str]) -> dict[str, str]:
    endpoint = settings.get("endpoint", "")
    if endpoint.removeprefix("https://") in ("", "s3.amazonaws.com"):
        return {}  # Amazon's own: the region says where it is
    if "://" not in endpoint:
        secure = settings.get("connection.ssl.enabled", "true").lower() == "true"
        endpoint = f"{'https' if secure else 'http'}://{endpoint}"
    path_style = settings.get("path.style.access", "false").lower() == "true"
    return {
        "aws_endpoint": endpoint,
        "aws_allow_http": str(endpoint.startswith("http://")).lower(),
        "aws_virtual_hosted_style_request": str(not path_style).lower(),
        "aws_region": settings.get("endpoint.region") or "us-east-1",
    }
