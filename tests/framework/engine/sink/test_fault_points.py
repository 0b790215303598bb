"""The hook at the steps of a batch: none is there unless the program sets one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from panekeeper.framework.engine.sink import fault_points
from panekeeper.framework.engine.sink.fault_points import fault_point


def test_the_hook_is_called_at_each_step_once_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the name of the step, the batch and the table; what it raises ends the step."""
    steps: list[tuple[str, int, str]] = []

    def hook(step: str, number: int, table: str) -> None:
        steps.append((step, number, table))
        if step == "before-delta":
            raise ConnectionError("the fault")

    fault_point("before-plan", 1)
    monkeypatch.setattr(fault_points, "hook", hook)
    fault_point("before-commit", 2, "/log")
    with pytest.raises(ConnectionError, match="the fault"):
        fault_point("before-delta", 2)
    assert steps == [("before-commit", 2, "/log"), ("before-delta", 2, "")]


def test_no_environment_variable_sets_a_hook() -> None:
    """A process that has names of steps in its environment passes every step."""
    program = "from panekeeper.framework.engine.sink import fault_points\nassert fault_points.hook is None"
    environment = os.environ | {"PANEKEEPER_FAULT": "before-plan:2", "PANEKEEPER_HOOK": "before-plan"}
    assert subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode == 0
