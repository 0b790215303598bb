"""Expressions over aggregates, as text: what `agg.expr` takes.

Python's own parser reads them, which takes what SQL and Python have in common. An expression becomes terms, a plain
value, so no text is read on the workers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from panekeeper.framework.declarations.errors import DeclarationError, did_you_mean

FUNCTIONS = {"abs": 1, "sqrt": 1, "floor": 1, "ceil": 1, "nullif": 2, "coalesce": 0, "least": 0, "greatest": 0}
"""Function -> how many arguments it takes; 0 for one or more. None has a result whose last bit differs by machine."""

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Mod: "%",
    ast.USub: "negative",
    ast.Not: "not",
    ast.And: "and",
    ast.Or: "or",
    ast.Eq: "=",
    ast.NotEq: "<>",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_BOOLEAN = {"not", "and", "or", "=", "<>", "<", "<=", ">", ">="}
_OF_BOOLEANS = {"not", "and", "or"}


@dataclass(frozen=True)
class Term:
    """A part of an expression.

    Attributes:
        name: an operator or function; `"number"`, or `"part"`, an aggregate.
        terms: what it is computed from.
        value: the number, or the number of the aggregate.
    """

    name: str
    terms: tuple[Term, ...] = ()
    value: float = 0

    @property
    def is_boolean(self) -> bool:
        """Whether it is true or false, not a number."""
        return self.name in _BOOLEAN


def parse(text: Any, aggregate: Callable[[str, list[Any], dict[str, Any]], int]) -> Term:
    """Return the term that a text is.

    Args:
        text: the expression.
        aggregate: gets the name, the arguments and the options of each call that is no function, and of a bare name no
            arguments and the option `result`; returns the number of the aggregate.

    Raises:
        DeclarationError: it is no expression, or has something that has no meaning here.
    """
    if not isinstance(text, str) or not text.strip():
        raise DeclarationError(f'agg.expr is of {text!r}; write an expression, such as "sum(a) / sum(b)"')
    return _Reader(text, aggregate).read()


class _Reader:
    def __init__(self, text: str, aggregate: Callable[[str, list[Any], dict[str, Any]], int]) -> None:
        self._text = text
        self._aggregate = aggregate

    def read(self) -> Term:
        source = re.sub(r"\(\s*\*\s*\)", "()", self._text.replace("<>", "!=")).strip()
        try:
            parsed = ast.parse(source, mode="eval").body
        except SyntaxError:
            raise self._refused("is no expression", 'write one such as "sum(a) / sum(b)", with == for equal') from None
        return self._term(parsed)

    def _term(self, node: ast.expr) -> Term:  # noqa: PLR0911 -- one a kind
        match node:
            case ast.Constant(value=bool() | str() | bytes() | complex()) | ast.Constant(value=None):
                raise self._refused(f"has {node.value!r}", "it takes numbers and aggregates")
            case ast.Constant(value=int() | float() as number):
                return Term("number", value=number)
            case ast.Name():
                return Term("part", value=self._aggregate(node.id, [], {"result": True}))
            case ast.Call(func=ast.Name()):
                return self._call(node)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return self._operation(node.op, node.left, node.right)
            case ast.UnaryOp(op=ast.UAdd()):
                return self._term(node.operand)
            case ast.UnaryOp() if type(node.op) in _OPERATORS:
                return self._operation(node.op, node.operand)
            case ast.BoolOp():
                return self._operation(node.op, *node.values)
            case ast.Compare() if len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
                return self._operation(node.ops[0], node.left, node.comparators[0])
        raise self._refused(
            f"has {ast.unparse(node)!r}", "it takes + - * / %, comparisons, and, or, not, and functions"
        )

    def _operation(self, operator: ast.AST, *nodes: ast.expr) -> Term:
        name = _OPERATORS[type(operator)]
        terms = tuple(map(self._term, nodes))
        for term, node in zip(terms, nodes, strict=True):
            if term.is_boolean != (name in _OF_BOOLEANS) and term.name != "part":
                what = "is a number" if name in _OF_BOOLEANS else "is a condition"
                raise self._refused(f"has {ast.unparse(node)!r} beside {name!r}", f"that {what}")
        return Term(name, terms)

    def _call(self, node: ast.Call) -> Term:
        name = node.func.id.lower() if isinstance(node.func, ast.Name) else ""
        if name in FUNCTIONS:
            wanted = FUNCTIONS[name]
            if node.keywords or not node.args or (wanted and len(node.args) != wanted):
                raise self._refused(f"has {ast.unparse(node)!r}", f"{name} takes {wanted or 'one or more'} argument(s)")
            return Term(name, tuple(map(self._term, node.args)))
        arguments = [
            argument.id if isinstance(argument, ast.Name) else self._literal(argument) for argument in node.args
        ]
        options = {keyword.arg: self._literal(keyword.value) for keyword in node.keywords if keyword.arg is not None}
        return Term("part", value=self._aggregate(name, arguments, options))

    def _literal(self, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            raise self._refused(
                f"has {ast.unparse(node)!r} in an aggregate",
                "aggregates are of columns; what is computed of columns needs a name first: df.withColumn(...)",
            ) from None

    def _refused(self, what: str, advice: str) -> DeclarationError:
        return DeclarationError(f"agg.expr({self._text!r}) {what}; {advice}")


def unknown_function(text: str, name: str, known: list[str]) -> DeclarationError:
    """Return the error of a call of what is neither an aggregate nor a function."""
    hint = did_you_mean(name, [*known, *FUNCTIONS])
    return DeclarationError(
        f"agg.expr({text!r}): there is no aggregate or function {name!r}{hint}; functions are {', '.join(FUNCTIONS)}"
    )
