"""What the rules in this folder look at: every file of the project, and what its syntax tree says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("cli", "diagnostics", "framework", "recovery", "state")
"""Folders that are imported as `panekeeper.framework` and so on, by links in `panekeeper/`."""
PACKAGES = (*PARTS, "panekeeper")
FOLDERS = (*PACKAGES, "benchmarks", "examples", "integration_tests", "tests")
SOURCES = [ROOT / "conftest.py", *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))]
PRODUCT = [path for path in SOURCES if path.relative_to(ROOT).parts[0] in PACKAGES]
TESTS = [path for path in SOURCES if path.name.startswith("test_")]
MARKDOWN = [*ROOT.glob("*.md"), *(path for folder in (*FOLDERS, "docs") for path in (ROOT / folder).rglob("*.md"))]

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Block:
    """A block of code or output in a page: its text, and the language after the fence, empty if indented or none."""

    language: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a page of Markdown in their order, fenced ones and indented ones."""
    blocks: list[Block] = []
    lines: list[str] | None = None  # of the block that has begun
    language, fenced, after_blank = "", False, True
    for line in [*page.read_text(encoding="utf-8").splitlines(), "end of page"]:
        fence = line.startswith("```")
        if fenced and not fence and lines is not None:
            lines.append(line)
        elif not fenced and line.startswith("    ") and (lines is not None or after_blank):
            lines = [*(lines or []), line[4:]]
        elif not fenced and not line.strip() and lines is not None:
            lines.append("")
        else:
            if lines is not None:
                blocks.append(Block(language, "\n".join(lines).strip("\n") + "\n"))
            fenced = fence and not fenced
            language, lines = (line[3:], []) if fenced else ("", None)
        after_blank = not line.strip()
    return blocks


def name_of(path: Path) -> str:
    """The name of a file in a message: its path from the top folder."""
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    """The dotted name under which a file is imported."""
    dotted = name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"panekeeper.{dotted}" if dotted.partition(".")[0] in PARTS else dotted


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def functions_of(path: Path) -> Iterator[Function]:
    """Every function and method of a file."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, Function):
            yield node


def docstrings_of(path: Path) -> str:
    """All docstrings of a file."""
    nodes = (node for node in ast.walk(tree_of(path)) if isinstance(node, Documented))
    return "\n".join(ast.get_docstring(node) or "" for node in nodes)


def imports_of(path: Path) -> set[str]:
    """Every module named in an import, wherever it stands in the file; of `from a import b`, both `a` and `a.b`."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@cache
def import_graph() -> dict[str, set[str]]:
    """For each module of the product the modules of the product that it imports, for type checkers, too.

    A name taken from a package's `__init__` is an edge to that package only if no module of that name is in it.
    """
    modules = {module_of(path): path for path in PRODUCT}
    graph = {}
    for module, path in modules.items():
        named = imports_of(path) & modules.keys()
        parents = {name.rpartition(".")[0] for name in named}
        graph[module] = {name for name in named if name not in parents or _taken_from(path, name, modules)} - {module}
    return graph


def _taken_from(path: Path, package: str, modules: dict[str, Path]) -> bool:
    """Whether a file takes a name from the package itself, not only modules that are in it."""
    return any(
        f"{package}.{alias.name}" not in modules
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom) and node.module == package
        for alias in node.names
    )
