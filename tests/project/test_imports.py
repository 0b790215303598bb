"""Who imports whom: packages and folders import one way, modules form no cycle, and what is pure names no Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.project.sources import FOLDERS, PRODUCT, ROOT, import_graph, imports_of, module_of, name_of

PARTS_ONE_WAY = tuple(f"panekeeper.{part}" for part in ("state", "framework", "recovery", "diagnostics", "cli"))
FRAMEWORK_ONE_WAY = ("declarations", "core", "engine", "builder", "testing")
ENGINE_ONE_WAY = ("session", "sources", "flow", "user_sinks", "sink", "job", "metrics")
RECOVERY_ONE_WAY = ("storage", "jobs", "savepoint", "restore", "upkeep", "upgrade", "settle", "drill")
DIAGNOSTICS_ONE_WAY = ("doctor", "tables", "keys", "inspector", "report", "replay", "what_if")
APART = [("panekeeper.diagnostics.inspector", "panekeeper.diagnostics.replay")]
"""Folders that need nothing of each other: what both need is in one before them."""
ORDERS = {
    "the parts": PARTS_ONE_WAY,
    "framework": tuple(f"panekeeper.framework.{folder}" for folder in FRAMEWORK_ONE_WAY),
    "panekeeper.framework.engine": tuple(f"panekeeper.framework.engine.{folder}" for folder in ENGINE_ONE_WAY),
    "recovery": tuple(f"panekeeper.recovery.{folder}" for folder in RECOVERY_ONE_WAY),
    "diagnostics": tuple(f"panekeeper.diagnostics.{folder}" for folder in DIAGNOSTICS_ONE_WAY),
}
SPARK = {"pyspark", "delta", "py4j"}


def place(module: str, order: Iterable[str]) -> int | None:
    """Where a module's folder stands in an order."""
    return next((at for at, folder in enumerate(order) if f"{module}.".startswith(f"{folder}.")), None)


def against(order: tuple[str, ...], graph: Mapping[str, set[str]]) -> list[str]:
    """Imports that lead from an earlier folder of the order to a later one."""
    wrong = []
    for module, imported in graph.items():
        for other in imported:
            here, there = place(module, order), place(other, order)
            if here is not None and there is not None and there > here:
                wrong.append(f"{module} imports {other}")
    return sorted(wrong)


def reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """All that a module imports, at first or any later hand."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = graph[ahead.pop()] - found
        found |= new
        ahead += new
    return found


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules each of which imports, by way of others, all of its group and itself."""
    below = {module: reached(graph, module) for module in graph}
    groups = {frozenset(other for other in below[module] if module in below[other]) for module in graph}
    return sorted(sorted(group) for group in groups if group)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_folders_import_one_way(order: tuple[str, ...]) -> None:
    """A folder imports itself and those before it in the order, for type checkers as well."""
    assert against(order, import_graph()) == []


@pytest.mark.parametrize(("one", "other"), APART)
def test_folders_that_stand_apart_do_not_import_each_other(one: str, other: str) -> None:
    """In neither direction, though one comes after the other."""
    graph = import_graph()
    found = against((one, other), graph) + against((other, one), graph)
    assert found == []


def test_an_import_against_the_order_is_found() -> None:
    """Of a folder as of a module in it; the other direction is fine."""
    graph = {"a.one": {"b.two", "a.three"}, "b.two": {"a.one", "b"}, "b": set[str]()}
    assert against(("a", "b"), graph) == ["a.one imports b.two"]


def test_the_product_imports_nothing_that_is_not_installed() -> None:
    """Tests, examples and benchmarks import the product, never the other way."""
    outside = set(FOLDERS) - {"panekeeper"}
    found = {name_of(path): {name.partition(".")[0] for name in imports_of(path)} & outside for path in PRODUCT}
    assert {name: tops for name, tops in found.items() if tops} == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Each can be read, and tested, before what is built on it."""
    found = circles(import_graph())
    assert found == []


def test_a_circle_of_imports_is_found() -> None:
    """With what is in it, not with what leads there or away."""
    graph = {"start": {"a"}, "a": {"b"}, "b": {"c", "end"}, "c": {"a"}, "end": set[str]()}
    assert circles(graph) == [["a", "b", "c"]]


def test_the_naive_models_share_nothing_with_the_product() -> None:
    """They decide what is right: what is wrong in the product must not be wrong in them as well."""
    models = sorted((ROOT / "tests" / "model").rglob("*.py"))
    assert models
    found = {name_of(path): {name.partition(".")[0] for name in imports_of(path)} & {*FOLDERS} for path in models}
    assert {name: tops for name, tops in found.items() if not tops <= {"tests"}} == {}
    own = {name for path in models for name in imports_of(path) if name.startswith("tests")}
    assert [name for name in own if not name.startswith("tests.model")] == []


def pure_files() -> list[Path]:
    """What must run without Spark: the stored state, the core, and the declarations."""
    state = [path for path in (ROOT / "state").rglob("*.py") if path.name != "spark_store.py"]
    pure = [path for folder in ("core", "declarations") for path in (ROOT / "framework" / folder).rglob("*.py")]
    return sorted([*state, *pure, ROOT / "panekeeper" / "__init__.py"])


def test_state_core_and_declarations_name_no_pyspark() -> None:
    """They say what a window is; Spark is only one place to run it."""
    tops = {name_of(path): {name.partition(".")[0] for name in imports_of(path)} & SPARK for path in pure_files()}
    assert {name: found for name, found in tops.items() if found} == {}


def test_state_core_and_declarations_run_where_pyspark_cannot_be_imported() -> None:
    """Not even by way of another module."""
    modules = [module_of(path) for path in pure_files()]
    program = f"""
import importlib, sys
sys.modules.update(pyspark=None, delta=None, py4j=None)
for name in {modules!r}:
    importlib.import_module(name)
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
