"""What Python workers load, which code of the user they find, and which packages they must have."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from panekeeper.framework.declarations.errors import SetupError
from panekeeper.framework.engine.session.python_workers import (
    DeferredProcessor,
    code_version,
    import_path,
    require_packages,
)
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
    assert handle.names == ["segments"]
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


def test_workers_import_what_the_program_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its path in the same order, also what was put on it later; the folder of a kernel is an empty entry."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "lib", *sys.path, "lib"])
    found = import_path().split(os.pathsep)
    assert found[:2] == [str(tmp_path), str(tmp_path / "lib")]
    assert len(found) == len({*found})


def test_workers_find_what_was_imported_before_the_folder_was_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The empty entry of a kernel's path means another folder then; a package is found beside its own folder."""
    (tmp_path / "beside_the_notebook.py").write_text("")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "package_beside").mkdir()
    (tmp_path / "package" / "package_beside" / "__init__.py").write_text("")
    monkeypatch.setattr(sys, "path", ["", "package", *sys.path])
    monkeypatch.chdir(tmp_path)
    for name in ("beside_the_notebook", "package_beside"):
        import_module(name)
    monkeypatch.chdir("/")
    assert {str(tmp_path), str(tmp_path / "package")} <= {*import_path().split(os.pathsep)}


def test_a_module_that_was_edited_is_imported_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By workers that Spark starts for another environment; a module that is only imported later changes nothing."""
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "edited_by_a_user.py"
    module.write_text("VALUE = 1")
    before = code_version()
    import_module("edited_by_a_user")
    assert code_version() == before
    os.utime(module, (1, 1))
    assert code_version() != before
    monkeypatch.delitem(sys.modules, "edited_by_a_user")
    assert code_version() == before


class Context:
    """A Spark context on a cluster whose Python lacks some packages."""

    master = "spark://host:7077"
    pythonExec = "/usr/bin/python3"  # noqa: N815 -- Spark's name

    def __init__(self, application: str, *missing: str) -> None:
        self.applicationId = application
        self.missing = missing
        self.jobs = 0

    def parallelize(self, names: tuple[str, ...], _: int) -> Context:
        self.jobs += 1
        self.names = names
        return self

    def map(self, _: Any) -> Context:
        return self

    def collect(self) -> list[bool]:
        return [name not in self.missing for name in self.names]


def test_a_start_says_once_what_the_python_of_the_workers_lacks() -> None:
    """And which variable to set; later starts in the same application do not ask again."""
    session: Any = SimpleNamespace(sparkContext=Context("application-1", "pyarrow", "numpy"))
    with pytest.raises(SetupError, match=r"/usr/bin/python3, lacks .*PYSPARK_PYTHON=.*Missing: pyarrow, numpy"):
        require_packages(session)
    session.sparkContext = Context("application-1")
    require_packages(session)
    require_packages(session)
    assert session.sparkContext.jobs == 1
