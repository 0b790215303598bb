"""Which job a Python file declares, and that nothing it does starts anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.readwriter import DataStreamWriter

from panekeeper.framework.builder.outputs import Computation, DeltaJob
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.recovery.errors import JobFileError
from panekeeper.recovery.upgrade.job_file import load_job

SPARK: Any = object()
HEAD = (
    "from panekeeper.framework.builder.outputs import Computation, DeltaJob\nfrom panekeeper import DeclarationError\n"
)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a job file and return its path; the import path is put back afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])

    def to(text: str, name: str = "program.py") -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HEAD + text)
        return str(path)

    return to


def tables_of(job: DeltaJob) -> Any:
    """Its tables, by which the jobs of this test differ."""
    return job.tables


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def job(spark):\n    return DeltaJob(spark, 'mine')", ""),
        ("job = DeltaJob(None, 'mine')", ""),
        ("other = DeltaJob(None, 'mine')\njob = DeltaJob(None, 'wrong')", ":other"),
        ("job = DeltaJob(None, 'mine').start(checkpoint='x')\nraise SystemError", ""),
        ("try:\n    DeltaJob(None, 'mine').start(checkpoint='x')\nexcept Exception:\n    pass", ""),
        ("print('hello')\njob = DeltaJob(None, 'mine')\nif __name__ == '__main__':\n    raise SystemError", ""),
    ],
)
def test_a_file_declares_a_job(write: Any, text: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By a function, by a variable, by another name, or by starting it; what it prints goes to stderr."""
    before = DeltaJob.start
    job = load_job(write(text) + name, spark=SPARK)
    assert tables_of(job) == "mine"
    assert DeltaJob.start is before
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"declares no job: job is not defined; define job\(spark\)"),
        ("job = 5", "declares no job: job is 5"),
        ("def job(spark):\n    return None", "declares no job"),
        ("1 / 0", "failed while it was loaded .ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "failed while it was loaded .SystemExit: 3"),
        ("import no_such_module_anywhere", "No module named 'no_such_module_anywhere'"),
        ("Computation(None).transform(checkpoint='x')", "starts a query or resets a job"),
        ("DeltaJob(None, 1).reset_to_initial_state(checkpoint='x')", "starts a query or resets a job"),
        (
            "from pyspark.sql.streaming.readwriter import DataStreamWriter\nDataStreamWriter.toTable(None, 't')",
            "starts a query or resets a job",
        ),
    ],
)
def test_a_file_without_a_job_is_refused(write: Any, text: str, message: str) -> None:
    """The error says what to write; afterwards queries can be started as before."""
    before = (Computation.transform, DataStreamWriter.start)
    with pytest.raises(JobFileError, match=message) as refused:
        load_job(write(text), spark=SPARK)
    assert "`plan`" not in str(refused.value)  # a file is loaded for other commands, too
    assert (Computation.transform, DataStreamWriter.start) == before


def test_other_errors_of_a_file_are_reported(write: Any, tmp_path: Path) -> None:
    """It is not there; it starts before it defines; its declaration is wrong, which is raised as it is."""
    with pytest.raises(JobFileError, match="there is no file"):
        load_job(tmp_path / "none.py")
    with pytest.raises(JobFileError, match="starts a job before it has defined later"):
        load_job(write("DeltaJob(None, 1).start(checkpoint='x')\nlater = 1") + ":later")
    with pytest.raises(DeclarationError, match="such a window"):
        load_job(write("raise DeclarationError('such a window')"))


def test_a_file_finds_the_modules_beside_it_and_in_its_package(write: Any) -> None:
    """As `python file.py` and `python -m package.file` would."""
    write("", "panes_of_a_user/__init__.py")
    write("table = 'mine'", "panes_of_a_user/beside.py")
    text = "import beside\nfrom panes_of_a_user.beside import table\njob = DeltaJob(beside.table, table)"
    assert tables_of(load_job(write(text, "panes_of_a_user/main.py"))) == "mine"
