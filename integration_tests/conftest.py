"""The Spark session that every integration test shares: its start and first query cost most of a test's time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from framework.engine.session.session import SHORT_LIVED, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all: two cores, four shuffle partitions, and the Java libraries for S3 and Kafka."""
    running = session("panekeeper-tests", cores=2, s3=True, kafka=True, **{"spark.sql.shuffle.partitions": 4})
    yield running
    running.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what uses the shared session, so that `-m "not spark"` means what it says."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
