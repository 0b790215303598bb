"""The stream of readings serves here too."""

from integration_tests.engine.conftest import readings
from integration_tests.engine.moto_s3 import bucket

__all__ = ["bucket", "readings"]
