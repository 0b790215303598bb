"""Checkpoints and tables on S3, by Hadoop's file system `s3a`: what a session and a query need for it.

S3 has no rename: a file that is written under one name and renamed to another is copied, and may be seen incomplete.
So a checkpoint there is written by another of Spark's file managers, which ends an upload or gives it up: a file is
there whole or not at all.

Where the store is, and the credentials, are read from the environment variables that boto3 reads, too, so that
savepoints and checkpoints find the same store. Spark itself takes over the credentials; they become no Spark setting.
"""

from __future__ import annotations

from collections.abc import Mapping

FILE_MANAGER = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
"""Not for other file systems: it needs streams that can be given up."""
EXCLUSIVE_CREATE = "fs.option.create.conditional.overwrite"
"""Option of a new file: S3 refuses it when it is complete, if the name is taken by then."""

SAME_ETAG = "fs.option.create.conditional.overwrite.etag"
"""Option of a file that replaces one: S3 refuses it if that is not the one of this tag any more."""

_S3A = "spark.hadoop.fs.s3a"


def is_s3(path: str) -> bool:
    """Say whether a path or URL is on S3, as Spark names it.

    >>> is_s3("s3a://bucket/checkpoint"), is_s3("/data/checkpoint")
    (True, False)
    """
    return path.startswith("s3a://")


def s3_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a session needs to reach S3, or another store with the API of S3, beside its Java libraries."""
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    settings = {
        # The default stream caches what it read of a file; ours are replaced (a heartbeat, every few seconds).
        f"{_S3A}.input.stream.type": "classic",
        # Uploads by the same client as all else: the other one is built for an older Netty than Spark's.
        f"{_S3A}.optimized.copy.from.local.enabled": "false",
    }
    if endpoint is not None:
        # A store of one's own has no host name for each bucket.
        settings |= {f"{_S3A}.endpoint": endpoint, f"{_S3A}.path.style.access": "true"}
        region = region or "us-east-1"
    if region is not None:
        settings[f"{_S3A}.endpoint.region"] = region
    return settings
