"""Savepoints of a job whose checkpoint and tables lie on S3, and outages of S3: the same promises as on a disk."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.drills.faults.faulty_s3 import FaultyStore
from integration_tests.engine.conftest import shown
from integration_tests.engine.moto_s3 import bucket_at
from integration_tests.engine.readings import FILES, LOG
from integration_tests.recovery.store_outage import IMPATIENT, OnS3, Outage
from panekeeper import PanekeeperError
from panekeeper.recovery.jobs.checkpoint import current_folder
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import savepoints, verify
from panekeeper.recovery.savepoint.checkpoint_snapshot import read_checkpoint
from panekeeper.recovery.savepoint.create import savepoint
from panekeeper.recovery.storage.locations import checkpoint_at
from panekeeper.recovery.upgrade.rescale import PARTITIONS, rescale

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.engine.conftest import Readings
    from panekeeper import Job


class Killed(Exception):
    """The process ends here."""


class Far:
    """The readings with their checkpoint, tables and savepoints in a bucket."""

    def __init__(self, readings: Readings, bucket: str) -> None:
        self.readings = readings
        self.checkpoint = f"{bucket}/jobs/checkpoint"
        self.place = bucket.replace("s3a:", "s3:") + "/savepoints"
        self.bucket = bucket

    def put(self, first: int, last: int) -> None:
        for rows in FILES[first : last + 1]:
            self.readings.put(*rows)

    def start(self, trigger: Any = "available_now") -> Job:
        declared = self.readings.computed().to_delta(f"{self.bucket}/log", view=f"{self.bucket}/view")
        return declared.start(checkpoint=self.checkpoint, trigger=trigger)

    def run(self) -> None:
        assert self.start().await_end(timeout=300)

    def tables(self) -> list[list[tuple[Any, ...]]]:
        """Rows of the log and the view, sorted."""
        delta = self.readings.spark.read.format("delta")
        read = [delta.load(f"{self.bucket}/{table}").collect() for table in ("log", "view")]
        return [shown(row.asDict() for row in rows) for rows in read]

    def restore(self, name: str, **options: Any) -> None:
        restore(self.place, name, spark=self.readings.spark, **options)


@pytest.fixture
def far(readings: Readings, bucket: str) -> Far:
    """The readings on S3."""
    return Far(readings, bucket)


@pytest.mark.release  # CI runs a job on S3, and restores from S3 without one
def test_a_job_restored_from_s3_and_resumed_gives_the_same_results(far: Far) -> None:
    """The savepoint is of a running job; the restore is killed, and until it is completed no job starts."""
    far.put(0, 1)
    job = far.start("immediate")
    job.process_available()
    before = far.tables()
    made = savepoint(far.checkpoint, "one", to=far.place, spark=far.readings.spark)
    assert set(made.manifest.tables) == {"log", "view", "quarantine", "metrics", "downtime"}
    far.put(2, 3)
    job.process_available()
    job.stop()
    assert far.tables() == [LOG, LOG[1:]]

    def crash(step: str) -> None:
        if step == "current":
            raise Killed

    with pytest.raises(Killed):
        far.restore("one", on_step=crash)
    far.restore("one")
    assert far.tables() == before
    far.run()
    assert far.tables() == [LOG, LOG[1:]]
    assert verify(far.place, "one").files == len(made.manifest.files)


@pytest.mark.release  # rescale, and a restore on S3, are tested by themselves
def test_a_rescaled_job_on_s3_resumes_with_the_same_results(far: Far) -> None:
    """The state is distributed again in the bucket; killed when its epoch has begun, a restore completes it."""
    spark = far.readings.spark
    far.put(0, 1)
    far.run()

    def crash(step: str) -> None:
        if step == "current":
            raise Killed

    with pytest.raises(Killed):
        rescale(far.checkpoint, 2, to=far.place, spark=spark, on_step=crash)
    (name,) = savepoints(far.place)
    far.restore(name)
    assert read_checkpoint(current_folder(checkpoint_at(far.checkpoint))).settings[PARTITIONS] == "2"
    far.put(2, 2)
    far.run()
    done = rescale(far.checkpoint, 8, to=far.place, spark=spark)
    assert (done.old, done.new) == (2, 8)
    assert done.values > 0
    far.put(3, 3)
    far.run()
    assert far.tables() == [LOG, LOG[1:]]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyStore]:
    """A store that works at first."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    made = FaultyStore()
    yield made
    made.close()


@pytest.mark.release  # CI lets an archive wait for its store
def test_a_job_waits_for_a_store_that_is_away_for_a_while(
    readings: Readings, store: FaultyStore, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each step of a batch; no error, and each result once."""
    with bucket_at(store.endpoint, spark, monkeypatch) as bucket:
        job = OnS3(readings, store, bucket)
        points = ("before-plan", "before-delta", "after-delta-commit")
        job.run_through(*(Outage(store, point, batch, 6) for batch, point in enumerate(points)))
        assert store.refused == 6
        job.require_right_tables()


@pytest.mark.release  # one that comes back is tested, and so are the errors of one that does not
def test_a_job_whose_store_stays_away_ends_with_an_error_and_resumes(
    readings: Readings, store: FaultyStore, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first line says that a start resumes, with what Spark said below; wherever it was, results stand once."""
    with bucket_at(store.endpoint, spark, monkeypatch, IMPATIENT) as bucket:
        job = OnS3(readings, store, bucket)
        for batch, point in enumerate(("before-plan", "before-delta", "after-delta-commit")):
            with pytest.raises(PanekeeperError) as raised:
                job.run_through(Outage(store, point, batch, math.inf))
            ours, *others = str(raised.value).splitlines()
            assert store.refused > 0
            assert "resumes with" in ours
            assert not [line for line in others if line.lstrip().startswith("at ")], others
            store.set_mode("works")
        job.run()
        job.require_right_tables()
