"""Guards on the shape of the project: who imports whom, how large a room may grow, and that every named path exists."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("framework", "panekeeper", "recovery", "state")
FOLDERS = (*PACKAGES, "benchmarks", "examples", "integration_tests", "tests")
SOURCES = [ROOT / "conftest.py", *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))]
TESTS = [path for path in SOURCES if path.name.startswith("test_")]
MARKDOWN = [*ROOT.glob("*.md"), *(path for folder in (*FOLDERS, "docs") for path in (ROOT / folder).rglob("*.md"))]

MOST_LINES_OF_A_FILE = 300
MOST_LINES_OF_A_FUNCTION = 40  # without its docstring: saying more is not punished

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    """How a file is called in a message."""
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    """The dotted name under which a file is imported."""
    return name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports_of(path: Path) -> set[str]:
    """Every module named in an import, wherever it stands in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def tops(path: Path) -> set[str]:
    """The top-level packages that a file imports."""
    return {name.partition(".")[0] for name in imports_of(path)}


def pure_files() -> list[Path]:
    """What must run without Spark: the stored state, the core, and the declarations."""
    state = [path for path in (ROOT / "state").rglob("*.py") if path.name != "spark_store.py"]
    pure = [path for room in ("core", "declarations") for path in (ROOT / "framework" / room).rglob("*.py")]
    return sorted([*state, *pure, ROOT / "panekeeper" / "__init__.py"])


def functions_of(path: Path) -> Iterator[Function]:
    """Every function and method of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, Function):
            yield node


def length_of(function: Function) -> int:
    """Lines from `def` to the end, without the docstring."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    return lines - ((first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0)


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("state", {"state"}),
        ("framework", {"framework", "state"}),
        ("recovery", {"recovery", "framework", "state"}),
    ],
)
def test_the_packages_import_one_way(package: str, allowed: set[str]) -> None:
    """`state` stands alone, `framework` builds on it, `recovery` on both; tests and examples are imported by none."""
    forbidden = set(FOLDERS) - allowed
    assert {name_of(p): found for p in (ROOT / package).rglob("*.py") if (found := tops(p) & forbidden)} == {}


def test_state_core_and_declarations_name_no_pyspark() -> None:
    """They say what a window is; Spark is only one place to run it."""
    assert [name_of(path) for path in pure_files() if tops(path) & {"pyspark", "delta", "py4j"}] == []


def test_state_core_and_declarations_run_where_pyspark_cannot_be_imported() -> None:
    """Not even by way of a neighbour."""
    modules = [module_of(path) for path in pure_files()]
    program = f"""
import importlib, sys
sys.modules.update(pyspark=None, delta=None, py4j=None)
for name in {modules!r}:
    importlib.import_module(name)
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_no_file_outgrows_a_reader() -> None:
    """A longer file holds two ideas: give each its own."""
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FILE} == {}


def test_no_function_outgrows_a_screen() -> None:
    """A longer function computes and loads and wires: split it by what it does."""
    lengths = {f"{name_of(path)}:{f.name}": length_of(f) for path in SOURCES for f in functions_of(path)}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}


def test_every_test_says_what_it_shows() -> None:
    """The docstring of a test is the sentence that it proves."""
    silent = [
        f"{name_of(path)}:{function.name}"
        for path in TESTS
        for function in functions_of(path)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]
    assert silent == []


OWN_NAMES = [
    folder for folder in FOLDERS if folder != "panekeeper"
]  # in a checkpoint there is a folder of that name, too
PATH = re.compile(rf"(?<![\w./~<>-])(?:{'|'.join((*OWN_NAMES, 'docs', 'tools'))})/(?:[\w.-]+/)*[\w.-]+\.[a-z0-9]+\b")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def docstrings_of(path: Path) -> str:
    """All docstrings of a file."""
    holders = (ast.Module, ast.ClassDef, *Function.__args__)
    nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, holders))
    return "\n".join(ast.get_docstring(node) or "" for node in nodes)


def test_every_path_named_in_prose_exists() -> None:
    """Markdown and docstrings name files by their path from the top folder; a moved file is renamed there too."""
    prose = {path: path.read_text() for path in MARKDOWN} | {path: docstrings_of(path) for path in SOURCES}
    gone = [
        (name_of(path), named)
        for path, text in prose.items()
        for named in PATH.findall(text)
        if not (ROOT / named).exists()
    ]
    assert gone == []


def test_every_link_between_pages_leads_somewhere() -> None:
    """Links in Markdown are relative to the page."""
    links = [(path, link) for path in MARKDOWN for link in LINK.findall(path.read_text())]
    assert [(name_of(path), link) for path, link in links if not (path.parent / link).exists()] == []


def test_the_wheel_holds_its_packages_and_nothing_else(tmp_path: Path) -> None:
    """No tests, examples or tools are installed; each package says that it is typed."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert "framework/engine/session/log4j2.properties" in names
