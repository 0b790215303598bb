"""The stream of readings serves here too."""

from integration_tests.engine.bucket import bucket
from integration_tests.engine.conftest import fail_at, readings

__all__ = ["bucket", "fail_at", "readings"]
