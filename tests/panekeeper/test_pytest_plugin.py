"""The fixtures for a user's tests: what they cost, and the guide that shows them."""

from __future__ import annotations

import os
import re
import tomllib

import pytest

from panekeeper import pytest_plugin
from tests.panekeeper.test_public_api import imported_by
from tests.project.sources import ROOT, blocks_of

pytest_plugins = ("pytester",)

GUIDE = ROOT / "docs" / "test-your-windows.md"
CODE = "\n".join(block.text for block in blocks_of(GUIDE) if block.language == "python")


@pytest.fixture
def alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder of tests with this plugin and no other that is installed."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", f"-p {pytest_plugin.__name__}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])))
    return pytester


def test_the_guide_prints_tests_that_pass_and_how_one_fails(alone: pytest.Pytester) -> None:
    """As they are printed and without Java; without the `reset` of its operator, one shows the least script.

    The test on Spark is run by `integration_tests/test_pytest_plugin.py`.
    """
    without, found = re.subn(r"(?s)    def reset.*?\n\n\n", "\n\n", CODE, count=1)
    assert found == 1
    alone.makepyfile(test_fares=CODE, test_without_reset=without)
    result = alone.runpytest_subprocess("-q", "-k", "(fares and not killed) or (without and not_depend)")
    result.assert_outcomes(passed=3, failed=1, deselected=4)
    shown = [line for line in blocks_of(GUIDE)[-2].text.splitlines() if "..." not in line and line.strip()]
    assert len(shown) == 10
    assert [line for line in shown if line.strip() not in result.stdout.str()] == []


def test_the_plugin_brings_three_fixtures_and_changes_no_test(alone: pytest.Pytester) -> None:
    """A fixture of the same name in the user's own files comes first; there are no hooks."""
    alone.makeconftest("import pytest\n@pytest.fixture\ndef run():\n    return 'mine'")
    alone.makepyfile(
        "def test_run(run):\n    assert run == 'mine'\ndef test_nothing():\n    import sys\n    assert sys"
    )
    alone.runpytest("-q").assert_outcomes(passed=2)
    own = [name for name in vars(pytest_plugin) if not name.startswith("_")]
    assert [name for name in own if name.startswith("pytest_")] == []
    source = (ROOT / "panekeeper" / "pytest_plugin.py").read_text(encoding="utf-8")
    fixtures = re.findall(r"^@pytest.fixture(.*)\ndef (\w+)", source, re.MULTILINE)
    assert fixtures == [("", "run"), ("", "spark_job"), ("", "kill_and_restart")]


def test_loading_it_loads_nothing_else() -> None:
    """Pytest starts as fast as without it."""
    found = imported_by("import panekeeper.pytest_plugin")
    assert found & {"pyspark", "delta", "py4j", "pandas", "numpy", "pyarrow", "duckdb"} == set()


def test_it_is_installed_for_pytest_which_is_optional() -> None:
    """Nobody has to name it in a conftest.py."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"panekeeper": pytest_plugin.__name__}
    assert [one for one in project["dependencies"] if one.startswith("pytest")] == []
    assert [one for one in project["optional-dependencies"]["testing"] if one.startswith("pytest")]
