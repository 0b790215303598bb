"""What all integration tests share: a Spark session, whose start costs most of a test's time, and faults."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration_tests.class_archive import java_options
from integration_tests.drills.faults import armed
from panekeeper.framework.engine.session.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all: two cores, four shuffle partitions, and the Java libraries for S3 and Kafka."""
    running = session("panekeeper-tests", cores=2, s3=True, kafka=True, **{"spark.sql.shuffle.partitions": 4})
    yield running
    running.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what uses the shared session, and what `make test` leaves out: all of a file but its first unmarked test.

    The tests of the stack take minutes each: they come first, so that no worker is left with one at the end.
    """
    begun: set[Path] = set()
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if not any(item.get_closest_marker(name) for name in ("extended", "release")):
            if item.path in begun:
                item.add_marker(pytest.mark.extended)
            begun.add(item.path)
    items.sort(key=lambda item: item.path.parent.name != "stack")


class FailOnce:
    """A fault that raises an error the first time a batch reaches a point."""

    def __init__(self, point: str, batch: int) -> None:
        self.place = (point, batch)
        self.has_failed = False

    def matches(self, point: str, batch: int) -> bool:
        return not self.has_failed and (point, batch) == self.place

    def trigger(self) -> None:
        self.has_failed = True
        raise ConnectionError(f"the line went dead at {self.place[0]}")


@pytest.fixture
def fail_at() -> Iterator[Callable[[str, int], None]]:
    """Make a batch fail, once, when it reaches a point of the commit protocol."""
    faults: list[FailOnce] = []

    def arm(point: str, batch: int) -> None:
        faults.append(FailOnce(point, batch))
        armed.arm(faults[-1])

    yield arm
    for fault in faults:
        armed.disarm(fault)
