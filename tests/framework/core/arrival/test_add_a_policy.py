"""The guide docs/add-a-policy.md: its code works as printed, in a folder outside the repository."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
GUIDE = ROOT / "docs" / "add-a-policy.md"
BLOCK = re.compile(r"```python\n# ([\w/]+\.py).*\n((?:.*\n)*?)```")


def printed() -> dict[str, str]:
    """The files that the guide prints, by their path."""
    return dict(BLOCK.findall(GUIDE.read_text(encoding="utf-8")))


def run_pytest(folder: Path, test: str) -> str:
    """Run a test file of a folder that sees Panekeeper as installed; return the last lines if it fails."""
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), test]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return "" if ran.returncode == 0 else ran.stdout[-3000:] + ran.stderr[-1000:]


def test_every_block_of_the_guide_is_a_file_that_is_run_here() -> None:
    """A block without a file name would be shown and never run."""
    text = GUIDE.read_text(encoding="utf-8")
    assert text.count("```python") == len(printed()) == 4


def test_the_policies_that_the_guide_prints_pass_the_tests_that_it_prints(tmp_path: Path) -> None:
    """From a folder of the reader's own, with a restart after each micro-batch."""
    for name in ("my_policies.py", "test_my_policies.py"):
        (tmp_path / name).write_text(printed()[name], encoding="utf-8")
    assert run_pytest(tmp_path, "test_my_policies.py") == ""


def test_the_implementation_that_the_guide_prints_passes_its_test(tmp_path: Path) -> None:
    """The file of the guide is imported by a name of its own: it is no part of the package."""
    (tmp_path / "multiple.py").write_text(printed()["multiple.py"], encoding="utf-8")
    test = printed()["test_multiple.py"].replace("framework.core.arrival.policies.multiple", "multiple")
    (tmp_path / "test_multiple.py").write_text(test, encoding="utf-8")
    assert run_pytest(tmp_path, "test_multiple.py") == ""


@pytest.mark.parametrize("name", ["protocol.py", "registry.py", "tumbles.py"])
def test_the_files_that_the_guide_speaks_of_are_there(name: str) -> None:
    """A reader who follows it finds them."""
    assert (ROOT / "framework" / "core" / "arrival" / "policies" / name).exists()
