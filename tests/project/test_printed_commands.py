"""The commands and programs that the pages print: each command with its options, each module and each name exists."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import panekeeper
from panekeeper.cli.commands import COMMANDS
from panekeeper.cli.main import make_parser
from panekeeper.framework.builder.outputs import Computation, DeltaJob
from panekeeper.framework.builder.ports import Ports
from panekeeper.framework.builder.windowed import StreamWithWindow, WindowedStream
from tests.project.sources import MARKDOWN, ROOT, Block, blocks_of, name_of

PAGES = {name_of(path): path for path in MARKDOWN}
CODE = re.compile(r"`([^`]+)`")
OTHER_OPTIONS = {"--allowNonRestoredState", "--drain", "--jars", "--packages", "--py-files", "--help"}
"""Those of Spark, of Flink, and of every command."""
IMPORT = ast.Import | ast.ImportFrom
GIVEN = {"spark", "declared", "job", "computation", "orders_df", "quotes_df", "events", "stream", "Match"}
"""Names that a page gives to something of the reader's own."""


def commands_in_blocks() -> Iterator[tuple[str, str]]:
    """Yield page and command for each line of a block that is to be typed, without a comment or `> FILE`."""
    for page, path in PAGES.items():
        for block in blocks_of(path):
            for line in block.text.replace("\\\n", "").splitlines():
                yield page, re.split(r"\s+(?:#|> \S+$)", line)[0].strip().removeprefix("$ ")


def commands_in_prose() -> Iterator[tuple[str, str]]:
    """Yield page and code for all code between backticks, of which some are commands."""
    for page, path in PAGES.items():
        text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for code in CODE.findall(text):
            yield page, " ".join(code.split())


def subcommand_parsers() -> dict[str, ArgumentParser]:
    """Return the parser of each subcommand."""
    (choices,) = [one.choices for one in make_parser()._actions if one.dest == "==SUPPRESS==" and one.choices]
    assert isinstance(choices, dict)
    return choices


def options_of(parser: ArgumentParser) -> set[str]:
    """Return the options that a parser takes."""
    return {option for action in parser._actions for option in action.option_strings}


def test_each_panekeeper_command_in_a_block_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands there, with an optional argument of square brackets too."""
    refused, count = [], 0
    for page, command in commands_in_blocks():
        if command.startswith("panekeeper "):
            count += 1
            try:
                make_parser().parse_args(shlex.split(re.sub(r"[][]", "", command))[1:])
            except SystemExit as ended:
                if ended.code:
                    refused.append((page, command, capsys.readouterr().err.splitlines()[-1]))
    assert refused == []
    assert count > 20


def test_each_panekeeper_command_in_prose_exists_with_its_options() -> None:
    """Its arguments may be left out there."""
    parsers = subcommand_parsers()
    assert parsers.keys() == COMMANDS.keys()
    every = set().union(*map(options_of, (*parsers.values(), make_parser())))
    wrong, count = [], 0
    for page, code in commands_in_prose():
        words = re.sub(r"[][]", "", code).split()
        if words[0] != "panekeeper" or len(words) == 1:
            continue
        count += 1
        known = options_of(parsers[words[1]]) if words[1] in parsers else every
        if words[1] not in {*parsers, "COMMAND"} and words[1] not in options_of(make_parser()):
            wrong.append((page, code))
        wrong += [(page, word) for word in words[1:] if word.startswith("-") and word not in known]
    assert wrong == []
    assert count > 30


@pytest.mark.parametrize(
    "page", [name for name in sorted(PAGES) if name.startswith("docs/") and name != "docs/soak.md"] + ["SECURITY.md"]
)
def test_each_option_that_a_guide_explains_is_one_of_the_command(page: str) -> None:
    """Of any subcommand; those of other programs are listed above."""
    known = set().union(*map(options_of, subcommand_parsers().values())) | OTHER_OPTIONS
    named = {code.split()[0] for name, code in commands_in_prose() if name == page and code.startswith("--")}
    assert named - known == set()


def test_each_option_of_a_command_is_in_a_guide() -> None:
    """What nobody would miss there is not an option."""
    guides = "\n".join(path.read_text(encoding="utf-8") for name, path in PAGES.items() if name.startswith("docs/"))
    options = set().union(*map(options_of, subcommand_parsers().values())) - {"-h", "--help"}
    assert sorted(one for one in options if not re.search(rf"{one}(?![\w-])", guides)) == []


def test_each_make_target_and_each_module_that_is_to_be_run_exists() -> None:
    """A package needs a `__main__`."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    gone, count = [], 0
    for page, command in (*commands_in_blocks(), *commands_in_prose()):
        found = re.fullmatch(r"(?:make ([a-z-]+)|python -m ([\w.]+)( .*)?)", command)
        if found is None or found[2] in {"venv", "pytest"}:
            continue
        count += 1
        if not (found[1] in targets if found[1] else can_be_run(found[2])):
            gone.append((page, command))
    assert gone == []
    assert count > 20


def can_be_run(module: str) -> bool:
    """Whether `python -m` takes a module."""
    path = ROOT / Path(*module.split("."))
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


def programs() -> list[tuple[str, ast.Module]]:
    """Return page and syntax tree of each block that is Python, marked so or not."""
    return [(page, tree) for page, path in PAGES.items() for block in blocks_of(path) if (tree := python_of(block))]


def python_of(block: Block) -> ast.Module | None:
    """Return the syntax tree of a block of Python; None if it is none, or all of it could be prose or a command."""
    if block.language not in {"python", "py", ""}:
        return None
    code = block.text.replace("\n    Multiple:", "\n# Multiple:")  # a line of a registry, not a statement
    code = "\n".join(line for line in code.splitlines() if not re.match(r"pip |panekeeper ", line))
    try:
        tree = ast.parse(code)
    except SyntaxError:
        if block.language:
            raise
        return None
    is_program = any(isinstance(node, ast.Call | ast.Import | ast.ImportFrom) for node in ast.walk(tree))
    return tree if block.language or is_program else None


def test_what_a_block_of_python_imports_from_panekeeper_exists() -> None:
    """Each name, and each module of ours."""
    imports = [(page, node) for page, tree in programs() for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    ours = [(page, node) for page, node in imports if str(node.module).startswith(("panekeeper", "framework"))]
    added = "panekeeper.framework.core.arrival.policies.multiple"  # the guide's own new file
    assert [
        (page, node.module, alias.name)
        for page, node in ours
        for alias in node.names
        if node.module != added and not hasattr(importlib.import_module(str(node.module)), alias.name)
    ] == []
    assert len(ours) > 10


@pytest.mark.parametrize("page", sorted({page for page, _ in programs()} - {"docs/drills.md"}))
def test_each_name_that_a_program_uses_is_imported_or_defined_on_its_page(page: str) -> None:
    """So it can be copied, but for what is the reader's own."""
    nodes = [node for name, tree in programs() if name == page for node in ast.walk(tree)]
    defined = GIVEN | set(dir(builtins)) | {"__name__"}
    defined |= {alias.asname or alias.name for node in nodes if isinstance(node, IMPORT) for alias in node.names}
    defined |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    defined |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    names = [node for node in nodes if isinstance(node, ast.Name)]
    defined |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    assert {node.id for node in names} - defined == set()


def signatures(called: ast.expr) -> list[inspect.Signature]:
    """Return those of what a call on a page names: of ours, of an aggregate, or a method of a declaration or a job."""
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    owners: list[Any] = [WindowedStream, StreamWithWindow, Ports, Computation, DeltaJob, panekeeper.Job]
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) and called.value.id == "agg":
        owners = [panekeeper.agg]
    elif isinstance(called, ast.Name):
        owners = [panekeeper, *owners]
    return [inspect.signature(getattr(owner, name)) for owner in owners if hasattr(owner, name)]


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Yield page and call for each one with keywords in a program and in prose, where a value may be left out."""
    trees: list[tuple[str, ast.AST]] = [*programs()]
    for page, code in commands_in_prose():
        try:
            filled = re.sub(r"=\s*(?=[,)])", "=None", code.removeprefix("."))
            trees.append((page, ast.parse(filled, mode="eval")))
        except SyntaxError:
            continue
    for page, tree in trees:
        found = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.keywords)
        yield from ((page, node) for node in found)


def test_each_keyword_that_a_page_passes_is_taken() -> None:
    """By the function, class or method of that name; the changelog names those that are gone, too."""
    wrong, count = [], 0
    for page, call in calls():
        given = {keyword.arg for keyword in call.keywords if keyword.arg is not None}
        takers = [one.parameters for one in signatures(call.func)]
        if page == "CHANGELOG.md" or not takers:
            continue
        count += 1
        free = any(one.kind is one.VAR_KEYWORD for taken in takers for one in taken.values())
        if not free and not any(given <= taken.keys() for taken in takers):
            wrong.append((page, ast.unparse(call)))
    assert wrong == []
    assert count > 80
