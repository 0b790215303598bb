"""The shape of the project: maps that name what is there, tests beside what they test, and a sentence for each."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.project.sources import (
    PACKAGES,
    PRODUCT,
    ROOT,
    SOURCES,
    TESTS,
    functions_of,
    name_of,
    tree_of,
)

MAPS = [path for path in PRODUCT if path.name == "__init__.py" and path.parent.name != "panekeeper"]
NAMELESS = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}
ENTRY = re.compile(r"^ *([a-z0-9_]+(?:\.py|/)) ", re.MULTILINE)


def test_no_file_is_a_drawer_for_odds_and_ends() -> None:
    """Its name says what is in it."""
    assert [name_of(path) for path in SOURCES if path.stem in NAMELESS] == []


@pytest.mark.parametrize("path", MAPS, ids=lambda path: name_of(path.parent))
def test_the_introduction_of_a_folder_is_a_map_of_it(path: Path) -> None:
    """The docstring of `__init__` has a line for each file and folder, and none for what is not there."""
    named = ENTRY.findall(ast.get_docstring(tree_of(path)) or "")
    files = {file.name for file in path.parent.glob("*.py")} - {"__init__.py"}
    folders = {f"{inner.parent.name}/" for inner in path.parent.glob("*/__init__.py")}
    assert sorted(named) == sorted(files | folders)


def test_test_folders_mirror_the_packages() -> None:
    """What tests a folder is in the folder of the same name under `tests/`."""
    folders = {path.parent.relative_to(ROOT / "tests") for path in TESTS if path.is_relative_to(ROOT / "tests")}
    mirrors = [folder for folder in folders if folder.parts and folder.parts[0] in PACKAGES]
    assert mirrors
    assert [folder.as_posix() for folder in mirrors if not (ROOT / folder / "__init__.py").exists()] == []


def test_every_test_says_what_it_shows() -> None:
    """The docstring of a test is the sentence that it proves."""
    silent = [
        f"{name_of(path)}:{function.name}"
        for path in TESTS
        for function in functions_of(path)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]
    assert silent == []
