"""Outages of the object store under a job with everything on S3, at any step of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration_tests.drills.faults import armed
from integration_tests.engine.conftest import shown
from integration_tests.engine.readings import FILES, LOG

if TYPE_CHECKING:
    from integration_tests.drills.faults.faulty_s3 import FaultyStore
    from integration_tests.engine.conftest import Readings

IMPATIENT = {
    "fs.s3a.attempts.maximum": "1",
    "fs.s3a.retry.limit": "2",
    "fs.s3a.retry.interval": "10ms",
    "fs.s3a.retry.throttle.limit": "2",
    "fs.s3a.retry.throttle.interval": "10ms",
}
"""An outage is longer than this patience. That of Hadoop's defaults is minutes."""


class Outage:
    """The store refuses requests from a point of a batch on, once."""

    def __init__(self, store: FaultyStore, point: str, batch: int, requests: float) -> None:
        self.store, self.place, self.requests = store, (point, batch), requests
        self.times = 0

    def matches(self, point: str, batch: int) -> bool:
        return self.times == 0 and (point, batch) == self.place

    def trigger(self) -> None:
        self.times += 1
        self.store.refuse(self.requests)


class OnS3:
    """The readings with checkpoint and tables in a bucket of a store that can fail."""

    def __init__(self, readings: Readings, store: FaultyStore, bucket: str) -> None:
        self.readings, self.store, self.bucket = readings, store, bucket
        for rows in FILES:
            readings.put(*rows)

    def run(self) -> None:
        declared = self.readings.computed(key_groups=1).to_delta(f"{self.bucket}/log", view=f"{self.bucket}/view")
        job = declared.start(checkpoint=f"{self.bucket}/checkpoint", trigger="available_now")
        assert job.await_end(timeout=300)

    def run_through(self, *outages: Outage) -> None:
        """Run with these outages; each of them must have refused what it should."""
        for outage in outages:
            armed.arm(outage)
        try:
            self.run()
        finally:
            for outage in outages:
                armed.disarm(outage)
                assert outage.times == 1, outage.place

    def require_right_tables(self) -> None:
        delta = self.readings.spark.read.format("delta")
        found = [
            shown(row.asDict() for row in delta.load(f"{self.bucket}/{name}").collect()) for name in ("log", "view")
        ]
        assert found == [LOG, LOG[1:]]
