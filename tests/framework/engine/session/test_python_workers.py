"""The driver names the state of a processor without loading it; a task loads it with its first call."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from panekeeper.framework.engine.session.python_workers import DeferredProcessor
from tests.project.sources import ROOT

DRIVER = """
import sys
import pyspark.sql.streaming.transform_with_state_driver_worker
import panekeeper.framework.engine.session.python_workers
print(sorted({"numpy", "pandas", "pyarrow"} & sys.modules.keys()))
"""


class Handle:
    """Keeps which variables were requested."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def getValueState(self, name: str, schema: Any) -> str:  # noqa: N802 -- Spark's name
        self.names.append(name)
        return name

    def getMapState(self, name: str, key: Any, value: Any) -> str:  # noqa: N802 -- Spark's name
        self.names.append(name)
        return name


class Echo(StatefulProcessor):
    """Returns what it is given."""

    def init(self, handle: Any) -> None:
        self.handle = handle

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803 -- Spark's names
        return iter([(key, *rows)])

    def close(self) -> None: ...


def test_the_driver_names_the_state_without_loading_the_processor() -> None:
    """Nor do the libraries that the processor needs load there."""
    handle: Any = Handle()
    deferred = DeferredProcessor(Echo())
    deferred.init(handle)
    assert handle.names == ["header", "segments", "timer"]
    with pytest.raises(AttributeError):
        deferred.handleInputRows("a", iter([1]), None)  # type: ignore[arg-type]
    ran = subprocess.run([sys.executable, "-c", DRIVER], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_a_task_hands_its_rows_to_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was when the query started."""
    context = object.__new__(TaskContext)  # its constructor would set it for the tests that follow, too
    monkeypatch.setattr(TaskContext, "_taskContext", context)
    handle: Any = Handle()
    deferred = DeferredProcessor(Echo())
    deferred.init(handle)
    assert handle.names == []
    assert list(deferred.handleInputRows("a", iter([1, 2]), None)) == [("a", 1, 2)]  # type: ignore[arg-type]
