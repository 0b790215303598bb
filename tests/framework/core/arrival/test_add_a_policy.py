"""The guide docs/add-a-policy.md: its code works as printed, in a folder outside the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
GUIDE = ROOT / "docs" / "add-a-policy.md"
BLOCK = re.compile(r"```python\n# ([\w/]+\.py)(?:, added)?\n((?:.*\n)*?)```")
POLICIES = Path("panekeeper", "framework", "core", "arrival", "policies")


def printed() -> dict[str, str]:
    """The files that the guide prints, by their path."""
    return dict(BLOCK.findall(GUIDE.read_text(encoding="utf-8")))


def run_pytest(folder: Path, test: str, installed: Path = ROOT) -> str:
    """Run a test file of a folder that sees Panekeeper as installed; return the last lines if it fails."""
    environment = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{installed}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), test]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return "" if ran.returncode == 0 else ran.stdout[-3000:] + ran.stderr[-1000:]


def test_every_block_of_the_guide_is_a_file_that_is_run_here() -> None:
    """A block without a file name would be shown and never run."""
    text = GUIDE.read_text(encoding="utf-8")
    assert text.count("```python") == len(printed()) == 5


def test_the_policies_that_the_guide_prints_pass_the_tests_that_it_prints(tmp_path: Path) -> None:
    """From a folder of the reader's own, with a restart after each micro-batch."""
    for name in ("my_policies.py", "test_my_policies.py"):
        (tmp_path / name).write_text(printed()[name], encoding="utf-8")
    assert run_pytest(tmp_path, "test_my_policies.py") == ""


def copy_packages(folder: Path) -> None:
    """Copy the packages, to be changed."""
    shutil.copytree(ROOT / "panekeeper", folder / "panekeeper", ignore=shutil.ignore_patterns("__pycache__"))


def test_a_built_in_policy_is_one_file_and_one_line_of_the_registry(tmp_path: Path) -> None:
    """As the guide prints them, put into a copy of the packages: its test passes, and fails without the line."""
    copy_packages(tmp_path)
    (tmp_path / POLICIES / "multiple.py").write_text(printed()["multiple.py"], encoding="utf-8")
    (tmp_path / "test_multiple.py").write_text(printed()["test_multiple.py"], encoding="utf-8")
    assert "has no implementation" in run_pytest(tmp_path, "test_multiple.py", tmp_path)

    registry = tmp_path / POLICIES / "registry.py"
    added_import, added_line = printed()["registry.py"].splitlines(keepends=True)
    text = registry.read_text(encoding="utf-8")
    text = text.replace("\n\nRUNNING_POLICIES", f"\n{added_import}\nRUNNING_POLICIES").replace(
        "RunningPolicy]] = {\n", f"RunningPolicy]] = {{\n{added_line}"
    )
    registry.write_text(text, encoding="utf-8")
    assert run_pytest(tmp_path, "test_multiple.py", tmp_path) == ""


@pytest.mark.parametrize("name", ["protocol.py", "registry.py", "partition_limits.py"])
def test_the_files_that_the_guide_speaks_of_are_there(name: str) -> None:
    """A reader who follows it finds them."""
    assert (ROOT / "framework" / "core" / "arrival" / "policies" / name).exists()
