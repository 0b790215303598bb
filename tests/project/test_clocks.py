"""Time is read in one module, and given to all others: as an argument, or as rows of the control stream."""

from __future__ import annotations

import ast

import pytest

from tests.project.sources import PRODUCT, name_of

CLOCK = "state/checkpoint/clock.py"
READINGS = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}
"""Module or class -> what of it reads a clock of the system."""


def clocks_read(tree: ast.AST) -> list[str]:
    """The names in a syntax tree that read a clock, called or passed on."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if node.attr in READINGS.get(owner, ()):
                found.append(f"{owner}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [f"time.{alias.name}" for alias in node.names if alias.name in READINGS["time"]]
    return found


def test_one_module_reads_the_clocks_of_the_system() -> None:
    """Then what depends on time can be tested at any time, and drills set one clock."""
    found = {name_of(path): clocks_read(ast.parse(path.read_text(encoding="utf-8"))) for path in PRODUCT}
    assert [name for name, read in found.items() if read] == [CLOCK]


@pytest.mark.parametrize(
    "line",
    [
        "time.time()",
        "x = time.monotonic",
        "datetime.now(UTC)",
        "datetime.datetime.utcnow()",
        "from time import time_ns",
    ],
)
def test_a_reading_of_a_clock_is_found(line: str) -> None:
    """Called, passed on, or imported."""
    assert clocks_read(ast.parse(line)) != []
