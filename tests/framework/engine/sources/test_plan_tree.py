"""What of Spark's tree of a plan is the same in each process, and what makes it another plan."""

from __future__ import annotations

import json
from typing import Any

from framework.engine.sources.plan_tree import normal_tree


def node(kind: str, children: int = 0, **fields: Any) -> dict[str, Any]:
    """A node as Spark writes it."""
    return {"class": f"org.apache.spark.sql.catalyst.{kind}", "num-children": children, **fields}


def column(number: int, name: str = "v") -> dict[str, Any]:
    """A column as an expression names it."""
    return node("AttributeReference", name=name, exprId={"product-class": "a.ExprId", "id": number, "jvmId": number})


def plan(condition: list[dict[str, Any]], *leaf: int) -> list[Any]:
    """The normal tree of a filter over a source with these columns."""
    tree = [node("Filter", 1, condition=condition), node("Source", output=[[column(number)] for number in leaf])]
    return normal_tree(json.dumps(tree))


def test_columns_are_known_by_where_they_come_from_and_not_by_their_names() -> None:
    """Two columns of one name differ; numbers of another process do not count, nor columns that nothing names."""
    both = [node("Less", 2), column(4), column(7)]
    assert plan(both, 4, 7) == plan([node("Less", 2), column(90), column(8)], 90, 8)
    assert plan(both, 4, 7) != plan(both, 7, 4)
    assert plan(both, 4, 7) == plan(both, 1, 4, 7, 9)
    assert plan([node("Less", 2), column(4), column(4)], 4) != plan(both, 4)


def test_a_seed_does_not_count_but_what_a_random_function_is_called_with() -> None:
    """Without one given, it is another one in each process: the last argument, or a field."""

    def random(length: int, seed: int, **fields: Any) -> list[dict[str, Any]]:
        argument = node("Literal", value=str(length), dataType="integer")
        cast = [node("Cast", 1), node("Literal", value=str(seed), dataType="long")]
        return [node("RandStr", 2), argument, *cast, node("Uuid", **fields), column(1)]

    assert plan(random(5, 1, randomSeed=3)) == plan(random(5, 2, randomSeed=4))
    assert plan(random(5, 1)) != plan(random(6, 1))


def test_literals_and_variables_count_by_what_they_are_and_not_by_their_numbers() -> None:
    """A text may look like an id; bytes are an object of Java, whose digits are in Spark's SQL."""

    def literal(value: str, kind: str) -> list[Any]:
        return plan([node("Literal", value=value, dataType=kind)])

    def variables(*numbers: int) -> list[Any]:
        return plan([{**column(one), **node("NamedLambdaVariable"), "name": f"x_{one}"} for one in numbers])

    assert literal("u@1", "string") != literal("u@2", "string")
    assert literal("[B@1a", "binary") == literal("[B@2b", "binary")
    assert variables(3, 5) == variables(4, 6)
    assert variables(3, 5) != variables(3, 3)
