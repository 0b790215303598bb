"""How much Hypothesis tries: more where PANEKEEPER_CI is set, so that on one's own machine the tests take seconds.

The suite is the same on every run; `--hypothesis-profile=explore` looks for new cases.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

_EXAMPLES = 36 if os.environ.get("PANEKEEPER_CI") else 24
settings.register_profile("suite", derandomize=True, max_examples=_EXAMPLES, deadline=None, database=None)
settings.register_profile(
    "explore", max_examples=5000, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that needs Spark belongs in integration_tests/: here, Spark finds no Java to start."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
