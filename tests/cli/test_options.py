"""An argument of a command reaches what the command calls: `call` takes arguments by the names of parameters."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from panekeeper.cli import commands
from panekeeper.cli.command import Command
from panekeeper.cli.commands import COMMANDS

OF_THE_PROGRAM = {"watch", "every"}
"""The program itself reads them."""
TREE = ast.parse(inspect.getsource(commands))
FUNCTIONS = {node.name: node for node in TREE.body if isinstance(node, ast.FunctionDef)}


def called_by(command: Command) -> list[ast.AST]:
    """Return what a command runs, and how its exit code is found, with the functions of the module that these call."""
    (call,) = [
        node
        for node in ast.walk(TREE)
        if isinstance(node, ast.Call)
        and any(one.arg == "name" and ast.literal_eval(one.value) == command.name for one in node.keywords)
    ]
    ahead: list[ast.AST] = [one.value for one in call.keywords if one.arg in ("run", "exit_code")]
    found: list[ast.AST] = []
    while ahead:
        found.append(node := ahead.pop())
        names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)} & FUNCTIONS.keys()
        ahead += [FUNCTIONS[name] for name in names if FUNCTIONS[name] not in found]
    return found


def taken_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that code reads of its options, and those of the parameters of what it hands them to."""
    names: dict[str, Any] = vars(commands) | {
        alias.name: getattr(importlib.import_module(str(inner.module)), alias.name)
        for inner in ast.walk(node)
        if isinstance(inner, ast.ImportFrom)
        for alias in inner.names
    }
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "options":
            yield inner.attr
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value  # of getattr
        elif isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "call":
            owner, _, name = ast.unparse(inner.args[0]).rpartition(".")
            yield from inspect.signature(getattr(names[owner], name) if owner else names[name]).parameters


@pytest.mark.parametrize("name", COMMANDS)
def test_each_argument_of_a_command_is_used(name: str) -> None:
    """None is parsed and then forgotten, as one whose name is that of no parameter would be."""
    command = COMMANDS[name]
    taken = {one for node in called_by(command) for one in taken_by(node)} | OF_THE_PROGRAM
    assert {one.dest for one in command.arguments} - taken == set()
    assert not command.reaches_s3 or "s3" in taken
