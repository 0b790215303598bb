"""The guides that ask the flights demo: each command gives, as printed, what the page prints below it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from panekeeper.cli.main import main
from tests.project.sources import blocks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("why", "replay", "what-if", "settle")  # settle changes the tables that the others read

pytestmark = [
    pytest.mark.release,
    pytest.mark.xdist_group("flights"),
]  # a replay of five days, then some twenty commands


def pattern(printed: str) -> str:
    """Return a pattern for what a page prints: `...` stands for lines that it leaves out, `/home/me` for any folder."""
    lines = (".*" if line.strip() == "..." else re.escape(line) for line in printed.splitlines())
    return "\n".join(lines).replace("/home/me/", ".*/")


def test_each_command_prints_what_its_guide_shows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of the pages. Programs of a page run, too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("examples").symlink_to(ROOT / "examples")
    ran = subprocess.run(
        [sys.executable, "-m", "examples.flights", "--days", "5"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    wrong = []
    names: dict[str, Any] = {"spark": spark}
    for block in (one for page in PAGES for one in blocks_of(ROOT / "docs" / f"{page}.md")):
        if block.language == "python":
            exec(block.text, names)  # noqa: S102 -- our own page
        for part in block.text.split("$ ")[1:] if block.text.startswith("$ ") else []:
            command, _, printed = part.partition("\n")
            if " out/demo/" not in command:  # of another job
                continue
            given, _, file = command.partition(" > ")
            capsys.readouterr()
            main(shlex.split(given)[1:])
            seen = capsys.readouterr()
            if file:
                Path(file).write_text(seen.out, encoding="utf-8")
            elif not re.fullmatch(pattern(printed), seen.out.rstrip("\n"), re.DOTALL):
                wrong.append(f"$ {command}\n{seen.out}{seen.err}")
    names["test_case"]()
    assert wrong == [], "\n".join(wrong)
