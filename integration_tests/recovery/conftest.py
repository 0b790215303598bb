"""The stream of readings serves here too."""

from integration_tests.engine.conftest import fail_at, readings

__all__ = ["fail_at", "readings"]
