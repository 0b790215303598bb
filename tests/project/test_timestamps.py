"""No code of ours asks Spark for a `timestamp` by that name."""

from __future__ import annotations

import ast
import re

import pytest

from tests.project.sources import PRODUCT, name_of, tree_of

_IN_SQL = re.compile(r"\bas timestamp\b|\btimestamp '|\bto_timestamp\(", re.IGNORECASE)


def named(node: ast.AST) -> bool:
    """Whether a node casts to the name, or is SQL with it."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("cast", "try_cast"):
        return any(isinstance(one, ast.Constant) and one.value == "timestamp" for one in node.args)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "expr":
        return bool(_IN_SQL.search(ast.unparse(node)))
    return False


def test_spark_is_asked_for_a_timestamp_by_its_type() -> None:
    """In a session with `spark.sql.timestampType=TIMESTAMP_NTZ` the name means another type: a job would not start."""
    found = [f"{name_of(path)}:{node.lineno}" for path in PRODUCT for node in ast.walk(tree_of(path)) if named(node)]  # type: ignore[attr-defined]
    assert found == []


@pytest.mark.parametrize(
    ("code", "is_one"),
    [
        ("a.cast('timestamp')", True),
        ("a.try_cast('timestamp')", True),
        ("F.expr(f'cast({a} as timestamp)')", True),
        ("a.cast(TimestampType())", False),
        ("F.expr(\"a - TIMESTAMP_NTZ '1970-01-01'\")", False),
        ("a.cast('long')", False),
    ],
)
def test_the_rule_finds_what_it_is_for(code: str, *, is_one: bool) -> None:
    """A cast by the name, from Python or SQL."""
    assert named(ast.parse(code, mode="eval").body) is is_one
