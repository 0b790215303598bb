"""The readings that jobs of these tests process."""

from integration_tests.engine.conftest import readings

__all__ = ["readings"]
