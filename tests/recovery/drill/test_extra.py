"""The drill kit is an extra: no other module imports it, and the command names what to install."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from panekeeper.recovery.drill.faults.damage import ScenarioNotSupported
from panekeeper.recovery.drill.faults.faulty_s3 import FaultyStore

ROOT = Path(__file__).parents[3]
INSTALLED = ("framework", "panekeeper", "recovery", "state")


def imports(path: Path, *, in_functions: bool) -> set[str]:
    """Return the modules that a file imports; those that only a type checker imports do not count."""
    tree = ast.parse(path.read_text())
    skipped = {
        node
        for one in ast.walk(tree)
        if (isinstance(one, ast.If) and ast.unparse(one.test) == "TYPE_CHECKING")
        or (not in_functions and isinstance(one, ast.FunctionDef))
        for node in ast.walk(one)
    }
    found = set()
    for node in (node for node in ast.walk(tree) if node not in skipped):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def importers(*, in_functions: bool) -> set[str]:
    """Return the installed files outside the drill kit that import it."""
    files = [path for folder in INSTALLED for path in (ROOT / folder).rglob("*.py")]
    outside = [path for path in files if not path.is_relative_to(ROOT / "recovery" / "drill")]
    return {
        path.relative_to(ROOT).as_posix()
        for path in outside
        if any(f"{name}.".startswith("panekeeper.recovery.drill.") for name in imports(path, in_functions=in_functions))
    }


def test_only_the_subcommand_imports_the_drill_kit_and_only_when_it_runs() -> None:
    """Its import stands in functions of recovery/cli/drill.py."""
    assert importers(in_functions=True) == {"recovery/cli/drill.py"}
    assert importers(in_functions=False) == set()


@pytest.mark.parametrize("command", [["--help"], ["drill", "--help"], ["status", "--help"]])
def test_help_needs_no_drill_kit(command: list[str]) -> None:
    """Arguments are parsed where `panekeeper.recovery.drill` cannot be imported."""
    program = f"""
import sys
sys.modules.update({{"panekeeper.recovery.drill": None, "moto": None, "boto3": None}})
from panekeeper.recovery.cli.main import main
main({command!r})
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "drill" in ran.stdout or command[0] == "status"


@pytest.mark.parametrize("missing", ["moto", "boto3"])
def test_a_missing_library_names_the_extra(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scenario is skipped with the command that installs what it needs."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ScenarioNotSupported, match=r"pip install 'panekeeper\[drill\]'"):
        FaultyStore()
