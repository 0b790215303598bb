"""The jobs of these tests, made without Spark."""

from tests.fake_checkpoint import archive, bucket, job, storage, stored_job, target

__all__ = ["archive", "bucket", "job", "storage", "stored_job", "target"]
