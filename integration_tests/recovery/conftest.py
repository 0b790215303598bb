"""The stream of readings serves here too."""

from integration_tests.engine.conftest import fail_at, readings
from integration_tests.engine.moto_s3 import bucket

__all__ = ["bucket", "fail_at", "readings"]
