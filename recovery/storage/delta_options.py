"""How the library `deltalake` reaches a table without Spark: by the options and credentials that savepoints use."""

from __future__ import annotations

import os
from collections.abc import Mapping

from panekeeper.framework.engine.session.s3_settings import s3_settings
from panekeeper.framework.engine.sink.library_table import UnsupportedTable, storage_options
from panekeeper.recovery.storage.s3_options import S3Options

_S3A = "spark.hadoop.fs.s3a."


def delta_options(url: str, s3: S3Options | None, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the library's options for a table.

    Args:
        url: its folder, or a URL of S3.
        s3: how S3 is reached.
        environment: the variables in which boto3 and Spark find the store.

    Raises:
        UnsupportedTable: new objects are encrypted in a way that the library is not known to follow.
    """
    if "://" not in url:
        return {}
    s3 = s3 or S3Options()
    if s3.encryption is not None:
        raise UnsupportedTable(f"its new objects are encrypted by {s3.encryption}")
    endpoint = {} if s3.endpoint is None else {"AWS_ENDPOINT_URL_S3": s3.endpoint}
    settings = s3_settings({**environment, **endpoint})
    own = {name.removeprefix(_S3A): value for name, value in settings.items() if name.startswith(_S3A)}
    return storage_options({**own, **_credentials()})


def _credentials() -> dict[str, str]:
    """Return what boto3 finds, in the environment, a profile or a role; the library looks in fewer places."""
    import boto3

    found = boto3.session.Session().get_credentials()
    if found is None:
        return {}
    now = found.get_frozen_credentials()
    named = {"access.key": now.access_key, "secret.key": now.secret_key, "session.token": now.token}
    return {name: value for name, value in named.items() if value}
