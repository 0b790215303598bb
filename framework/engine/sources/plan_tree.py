"""What does a plan compute, by Spark's JSON of its tree, whatever numbers its columns have in this process?

The JSON has each column by its number, so that columns of one name differ, and literals with their types. It lacks what
is neither an expression nor a number or a text, as the options of a reader: these are in Spark's text of the operators.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

_RANDOM = {"Rand", "Randn", "RandStr", "Uniform"}
"""Functions whose last argument is a seed, which is another one in each process if none is given."""
_OF_THE_PROCESS = {
    "cteId",
    "dataframeId",
    "hideSeed",
    "jvmId",
    "nodeId",
    "randomSeed",
    "resultId",
    "seed",
    "sourceName",
}
"""Fields of operators and expressions that differ between two processes, or do not decide what is in a row."""
_NUMBER = re.compile(r"(?<=_)\d+$")
_OBJECT = re.compile(r"@[0-9a-f]+$")

_Node = dict[str, Any]


def normal_tree(tree: str) -> list[Any]:
    """Return the tree of a plan, with its columns numbered in the order in which they are first named.

    Args:
        tree: as `LogicalPlan.toJSON` of Spark returns it: the nodes, each before its children.

    >>> column = '{"class": "a.AttributeReference", "name": "x", "exprId": {"product-class": "a.ExprId", "id": %d}}'
    >>> normal_tree(f"[{column % 7}, {column % 9}]") == normal_tree(f"[{column % 3}, {column % 4}]")
    True
    >>> normal_tree(f"[{column % 7}, {column % 7}]") == normal_tree(f"[{column % 3}, {column % 4}]")
    False
    """
    numbers: dict[int, int] = {}
    return [_normal(node, numbers) for node in _without_seeds(json.loads(tree))]


def _normal(value: Any, numbers: dict[int, int]) -> Any:
    if isinstance(value, list):
        return [_normal(one, numbers) for one in (_without_seeds(value) if _is_tree(value) else value)]
    if not isinstance(value, dict):
        return value
    if str(value.get("product-class", "")).endswith(".ExprId"):
        return numbers.setdefault(value["id"], len(numbers))
    if str(value.get("product-class", "")).endswith(".CatalogTable"):  # it has times, and what its owner may change
        return _normal(value.get("identifier"), numbers)
    kind = _kind(value)
    if not value.get("num-children", 0) and isinstance(value.get("output"), list):
        value = {**value, "output": [one for one in value["output"] if _is_named(one, numbers)]}
    found = {name: _normal(one, numbers) for name, one in value.items() if name not in _OF_THE_PROCESS}
    if kind == "NamedLambdaVariable":
        found["name"] = _NUMBER.sub("", found["name"])
    if kind == "Literal" and found.get("dataType") != "string":
        found["value"] = _OBJECT.sub("", str(found.get("value")))  # bytes and arrays are objects of Java
    if kind.startswith("CTERelation"):
        found.pop("id", None)
    return found


def _is_named(column: Any, numbers: Collection[int]) -> bool:
    """Return whether a column of a source is named above it: a table may have got more columns since."""
    return not _is_tree(column) or not column or column[0].get("exprId", {}).get("id") in numbers


def _is_tree(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) and "class" in one for one in value)


def _kind(node: _Node) -> str:
    return str(node.get("class", "")).rpartition(".")[2]


def _without_seeds(nodes: list[_Node]) -> list[_Node]:
    """Return the nodes of a tree without the values that are seeds of random functions."""
    seeds: set[int] = set()
    for number, node in enumerate(nodes):
        if _kind(node) in _RANDOM and node.get("num-children"):
            seeds.update(range(*[*_children(nodes, number)][-1]))
    return [{**node, "value": None} if at in seeds else node for at, node in enumerate(nodes)]


def _children(nodes: list[_Node], parent: int) -> Iterator[tuple[int, int]]:
    """Yield where each child of a node begins and ends: it is followed by its own children."""
    begin = parent + 1
    for _ in range(nodes[parent].get("num-children", 0)):
        end, open_ = begin, 1
        while open_:
            open_ += nodes[end].get("num-children", 0) - 1
            end += 1
        yield begin, end
        begin = end
