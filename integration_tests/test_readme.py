"""The program that the README opens with works as printed, resumes when it is run again, and needs only the wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LATER = '{"carrier": "AA", "scheduled": "2013-01-01T18:00:00Z", "flight": "AA 1", "delay": 1}\n'


def first_program() -> str:
    """Return the first Python block of the README."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def rows_printed(program: str, folder: Path, python: str | Path = sys.executable) -> list[list[str]]:
    """Run the program in a folder of its own and return the cells of the table that it prints."""
    named = {name: value for name, value in os.environ.items() if python == sys.executable or name != "PYTHONPATH"}
    command = [str(python), "-c", program]
    done = subprocess.run(command, cwd=folder, env=named, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "UDF" not in done.stderr  # the log lines of Spark's workers are kept out of a user's terminal
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.spark_4_1
def test_the_first_program_of_the_readme_works_as_printed_and_resumes(tmp_path: Path) -> None:
    """Five panes of UA have fired; a later file moves the watermark, which fires three of AA and none twice."""
    program = first_program()
    header, *first = rows_printed(program, tmp_path)
    assert header[:3] == ["carrier", "pane_start", "pane_end"]
    assert [(row[1][11:16], row[3], row[4], row[5]) for row in first if row[0] == "UA"] == [
        ("09:20", "2", "UA 1545", "1"),
        ("09:40", "2", "UA 1545", "1"),
        ("10:00", "34", "UA 1714", "2"),
        ("10:20", "34", "UA 1714", "1"),
        ("10:40", "34", "UA 1714", "1"),
    ]
    (tmp_path / "in" / "2.json").write_text(LATER)
    _, *second = rows_printed(program, tmp_path)
    assert [row for row in second if row in first] == first
    assert [row[1][11:16] for row in second if row[0] == "AA"] == ["11:20", "11:40", "12:00"]


@pytest.mark.extended
def test_it_runs_where_nothing_but_the_wheel_is_installed(tmp_path: Path) -> None:
    """In a new virtual environment, in a folder from which the repository cannot be imported."""
    pip = ["-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = ["-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run([sys.executable, *build], cwd=ROOT, capture_output=True, check=True)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "empty")], check=True)
    python = tmp_path / "empty" / "bin" / "python"
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([python, *pip, "install", "--constraint", ROOT / "requirements.lock", wheel], check=True)
    (tmp_path / "elsewhere").mkdir()
    first = rows_printed(first_program(), tmp_path / "elsewhere", python)
    assert first == rows_printed(first_program(), tmp_path)
    assert len(first) > 1
