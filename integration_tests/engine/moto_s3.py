"""An S3 for jobs of the shared session: moto's server, a real HTTP endpoint in this process."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from panekeeper.framework.engine.session.s3_settings import s3_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY, SECRET = "AKIATEST", "wJalrXUtnFEMI"


@pytest.fixture
def bucket(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, conditional_writes: None) -> Iterator[str]:  # noqa: ARG001 -- what it needs
    """The URL of an empty bucket that the shared session reaches, and so does boto3."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with bucket_at(f"http://{host}:{port}", spark, monkeypatch) as url:
        yield url
    server.stop()


@contextmanager
def bucket_at(
    endpoint: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, more: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Provide the URL of a new bucket of a store; `more` are settings of Hadoop."""
    hadoop: Any = spark._jsc.hadoopConfiguration()
    given = {
        name.removeprefix("spark.hadoop."): value for name, value in s3_settings({"AWS_ENDPOINT_URL": endpoint}).items()
    }
    given |= {"fs.s3a.access.key": KEY, "fs.s3a.secret.key": SECRET}
    given |= {"fs.s3a.connection.expect.continue": "false"} | dict(more or {})  # moto has no "100 Continue"
    for name, value in given.items():
        hadoop.set(name, value)
    name = f"bucket-{uuid.uuid4().hex}"  # Hadoop keeps a client for each bucket
    for variable in [one for one in os.environ if one.startswith("AWS_") or one.lower().endswith("_proxy")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    boto3.client("s3").create_bucket(Bucket=name)
    yield f"s3a://{name}"
    for setting in given:
        hadoop.unset(setting)
