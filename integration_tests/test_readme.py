"""The program that the README opens with works as printed, resumes when it is run again, and needs only the wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LATER = "AA,2013-01-01 18:00,1\n"


def first_program() -> tuple[str, str]:
    """Return the first Python block of the README, and the block after it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1], found[2]


def rows_printed(program: str, folder: Path, python: str | Path = sys.executable) -> list[list[str]]:
    """Run the program in a folder of its own and return the cells of the table that it prints."""
    named = {name: value for name, value in os.environ.items() if python == sys.executable or name != "PYTHONPATH"}
    command = [str(python), "-c", program]
    done = subprocess.run(command, cwd=folder, env=named, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""  # neither Panekeeper nor the program has said anything there
    return table_of(done.stdout)


def table_of(text: str) -> list[list[str]]:
    """Return the cells of a table that Spark prints."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.spark_4_1
def test_the_first_program_of_the_readme_prints_what_stands_below_it_and_resumes(tmp_path: Path) -> None:
    """Run again with a later file it adds the panes that are complete now, and none twice."""
    program, printed = first_program()
    first = rows_printed(program, tmp_path)
    assert first == table_of(printed)
    (tmp_path / "in" / "3.csv").write_text(LATER)
    second = rows_printed(program, tmp_path)
    assert second[: len(first)] == first
    assert [row[1][11:16] for row in second[len(first) :]] == ["12:00"]


@pytest.mark.release  # CI runs a program on the wheel beside a user's modules
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
    program, printed = first_program()
    assert rows_printed(program, tmp_path / "elsewhere", python) == table_of(printed)
