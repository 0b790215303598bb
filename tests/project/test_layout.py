"""The shape of the project: how large a file, a function and a folder may grow, and maps that name what is there."""

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
    Function,
    functions_of,
    name_of,
    tree_of,
)

MOST_LINES_OF_A_FILE = 300
MOST_LINES_OF_A_FUNCTION = 40  # without its docstring: saying more is not punished
MOST_FILES_OF_A_FOLDER = 14
MAPS = [path for path in PRODUCT if path.name == "__init__.py" and path.parent.name != "panekeeper"]
ENTRY = re.compile(r"^ *([a-z0-9_]+(?:\.py|/)) ", re.MULTILINE)


def length_of(function: Function) -> int:
    """Lines from `def` to the end, without the docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    return lines - ((first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0)


def test_no_file_outgrows_a_reader() -> None:
    """A longer file holds two ideas: give each its own."""
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FILE} == {}


def test_no_function_outgrows_a_screen() -> None:
    """A longer function computes and loads and wires: split it by what it does."""
    lengths = {f"{name_of(path)}:{f.name}": length_of(f) for path in SOURCES for f in functions_of(path)}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}


def test_no_folder_outgrows_a_glance() -> None:
    """`__init__` and `conftest` aside; a fuller folder holds two: give each its own."""
    folders = {path.parent for path in SOURCES} - {ROOT}
    counts = {
        name_of(folder): len({*folder.glob("*.py")} - {folder / "__init__.py", folder / "conftest.py"})
        for folder in folders
    }
    assert {name: files for name, files in counts.items() if files > MOST_FILES_OF_A_FOLDER} == {}


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
