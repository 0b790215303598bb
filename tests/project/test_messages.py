"""Advice in messages can be followed as it is printed: commands are accepted, options exist, code has names that exist.

A message is any text in the product that is no docstring. What it has of values is filled in: a value that a command
has is a folder with a space in its name, so it must be quoted.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody names it, also in our messages
from pyspark.sql.conf import RuntimeConfig
from pyspark.sql.streaming.readwriter import DataStreamReader

import panekeeper
from panekeeper.cli.commands import COMMANDS
from panekeeper.cli.main import make_parser
from panekeeper.framework.builder.outputs import Computation, DeltaJob
from panekeeper.framework.builder.ports import Ports
from panekeeper.framework.builder.windowed import StreamWithWindow, WindowedStream
from tests.project.sources import PRODUCT, name_of, tree_of
from tests.project.test_printed_commands import options_of, subcommand_parsers

Message = tuple[str, list[str | ast.FormattedValue]]
"""Where it is, and its parts."""

COMMAND = re.compile(rf"`panekeeper (?:{'|'.join(COMMANDS)})[^`]*`|\bpanekeeper (?:{'|'.join(COMMANDS)}) [^`;]*$")
"""In backticks, or up to the end of the message."""
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
OTHER_OPTIONS = {"--packages", "--jars", "--exclude-packages", "--master", "--version"}
"""Those of spark-submit, and of `panekeeper` without a command."""
CALL = re.compile(
    r"(?<![\w.])(?:(?:df|spark|F|agg|job|panekeeper)(?:\.\w+)+|session|windowed|ports|start|to_delta|transform"
    r"|TimeInterval|Tumbling|Sliding|Batched|Count|Time|Delta|Punctuation|hours|minutes|days|EventType)\("
)
OWNERS: dict[str, Any] = {
    "df": DataFrame,
    "spark": SparkSession,
    "F": F,
    "panekeeper": panekeeper,
    "agg": panekeeper.agg,
}
DECLARATIONS = (WindowedStream, StreamWithWindow, Ports, Computation, DeltaJob, panekeeper.Job, panekeeper)
METHODS = (*DECLARATIONS, DataFrame, DataStreamReader, RuntimeConfig, Column)
"""Where a name after a call may be from."""


def messages() -> Iterator[Message]:
    """Yield each text of the product but docstrings."""
    for path in PRODUCT:
        tree = tree_of(path)
        skipped = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        skipped |= {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for part in ast.walk(node)
            if part is not node
        }
        for node in ast.walk(tree):
            if id(node) in skipped:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = [one.value if isinstance(one, ast.Constant) else one for one in node.values]
                yield f"{name_of(path)}:{node.lineno}", [*map(_part, parts)]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield f"{name_of(path)}:{node.lineno}", [node.value]


def _part(part: Any) -> str | ast.FormattedValue:
    return part if isinstance(part, ast.FormattedValue) else str(part)


def as_command(part: str | ast.FormattedValue) -> str:
    """Return a part of a message; a value is a number, or a folder that is quoted only if the message does."""
    if isinstance(part, str):
        return part
    text = ast.unparse(part.value)
    if text.startswith("shlex.quote("):
        return "'a folder'"
    return "2" if text.endswith(("partitions", "key_groups")) else "a folder"


def as_code(part: str | ast.FormattedValue) -> str:
    """Return a part of a message; a value is a name, or a text if the message shows it as one."""
    if isinstance(part, str):
        return part
    return "'x'" if part.conversion == ord("r") else "x"


def test_each_command_in_a_message_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    """With its arguments, as it is printed: it can be copied."""
    refused, count = [], 0
    for place, parts in messages():
        text = "".join(map(as_command, parts))
        for found in COMMAND.findall(text):
            if found.strip("`") == text:
                continue  # a name, not a message
            count += 1
            try:
                make_parser().parse_args(shlex.split(found.strip("`"))[1:])
            except SystemExit:
                refused.append((place, found, capsys.readouterr().err.splitlines()[-1]))
    assert refused == []
    assert count > 10


def test_each_option_in_a_message_is_one_of_a_command() -> None:
    """Of any command."""
    known = set().union(*map(options_of, subcommand_parsers().values())) | OTHER_OPTIONS
    named = {
        (place, option) for place, parts in messages() for option in OPTION.findall("".join(map(as_command, parts)))
    }
    assert sorted(one for one in named if one[1] not in known) == []
    assert len(named) > 10


def snippets() -> Iterator[tuple[str, str]]:
    """Yield the code of calls in messages: from a name that is ours, Spark's or the reader's to its last bracket."""
    for place, parts in messages():
        text = "".join(map(as_code, parts))
        end = 0
        for found in CALL.finditer(text):
            if found.start() < end:
                continue
            end = _end_of_call(text, found.end() - 1)
            while (more := re.match(r"\.\w+\(", text[end:])) is not None:
                end = _end_of_call(text, end + more.end() - 1)
            yield place, text[found.start() : end]


def _end_of_call(text: str, opened: int) -> int:
    """Return where the bracket that is opened is closed, not within a text; the end if it is not."""
    depth, quote = 0, ""
    for at in range(opened, len(text)):
        one = text[at]
        if quote:
            quote = "" if one == quote else quote
        elif one in "\"'":
            quote = one
        else:
            depth += (one in "([{") - (one in ")]}")
            if depth == 0:
                return at + 1
    return len(text)


def test_code_in_a_message_is_python() -> None:
    """It compiles, whatever values it has."""
    wrong, count = [], 0
    for place, code in snippets():
        count += 1
        try:
            ast.parse(code, mode="eval")
        except SyntaxError as error:
            wrong.append((place, code, str(error)))
    assert wrong == []
    assert count > 40


def test_what_code_in_a_message_calls_exists_and_takes_its_keywords() -> None:
    """Of Panekeeper, of a DataFrame, of Spark's functions."""
    wrong = []
    for place, code in snippets():
        try:
            tree = ast.parse(code, mode="eval")
        except SyntaxError:
            continue  # the test above names it
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            takers = _takers(call.func)
            if not takers:
                wrong.append((place, ast.unparse(call.func), "does not exist"))
                continue
            given = {keyword.arg for keyword in call.keywords if keyword.arg is not None}
            if given and not any(_takes(taker, given) for taker in takers):
                wrong.append((place, ast.unparse(call), "a keyword is not taken"))
    assert wrong == []


def _takers(called: ast.expr) -> list[Any]:
    """Return what a call in a message may mean."""
    if isinstance(called, ast.Name):
        return [getattr(one, called.id) for one in (panekeeper, *DECLARATIONS) if hasattr(one, called.id)]
    assert isinstance(called, ast.Attribute)
    if called.attr == "x":
        return [...]  # a value, as the kind of an aggregate
    if isinstance(called.value, ast.Name) and called.value.id in OWNERS:
        owner = OWNERS[called.value.id]
        return [getattr(owner, called.attr)] if hasattr(owner, called.attr) else []
    return [getattr(one, called.attr) for one in METHODS if hasattr(one, called.attr)]


def _takes(taker: Any, given: set[str]) -> bool:
    parameters = inspect.signature(taker).parameters
    return given <= parameters.keys() or any(one.kind is one.VAR_KEYWORD for one in parameters.values())
