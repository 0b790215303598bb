"""The program that the README opens with works as printed, and goes on where it was when it is run again."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def rows_printed(program: str, folder: Path) -> list[list[str]]:
    """Run the program in a folder of its own and return the cells of the table that it prints."""
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "UDF" not in done.stderr  # what Spark's workers tell is not for who looks for a table
    lines = [line for line in done.stdout.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_first_program_of_the_readme_works_as_printed_and_resumes(tmp_path: Path) -> None:
    """Three panes of UA have fired; a later file makes its watermark fire the others, and nothing twice."""
    found = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    program = found[1]
    header, *first = rows_printed(program, tmp_path)
    assert header[:3] == ["carrier", "pane_start", "pane_end"]
    assert [(row[1][11:16], row[3], row[4], row[5]) for row in first if row[0] == "UA"] == [
        ("09:20", "2", "UA 1545", "1"),
        ("09:40", "2", "UA 1545", "1"),
        ("10:00", "34", "UA 1714", "2"),
        ("10:20", "34", "UA 1714", "1"),
        ("10:40", "34", "UA 1714", "1"),
    ]
    later = '{"carrier": "AA", "scheduled": "2013-01-01T18:00:00Z", "flight": "AA 1", "delay": 1}\n'
    (tmp_path / "in" / "2.json").write_text(later)
    _, *second = rows_printed(program, tmp_path)
    assert [row for row in second if row in first] == first
    assert [row[1][11:16] for row in second if row[0] == "AA"] == ["11:20", "11:40", "12:00"]
