"""The guides and docstrings: what they print works as printed."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import panekeeper
from panekeeper import Count, Event, EventType, Tumbling
from panekeeper.framework.core import quarantine
from panekeeper.framework.core.aggregates import protocol
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, JobSpec
from panekeeper.framework.core.steps import Rows
from panekeeper.framework.engine.flow import row_checks
from panekeeper.state.store import MemoryStore
from tests.framework.core.handler_batches import KEYS, run
from tests.project.sources import PRODUCT, ROOT, blocks_of, module_of
from tests.project.window_tables import PAGES, with_results

GUIDE = ROOT / "docs" / "operator-with-state.md"
DECLARATIONS = {
    name: getattr(panekeeper, name)
    for name in (
        "AllOf",
        "AnyOf",
        "Batched",
        "Calendar",
        "Count",
        "Cumulate",
        "Delta",
        "Every",
        "PartitionAge",
        "PartitionCount",
        "Punctuation",
        "Session",
        "Sliding",
        "SlidingByRow",
        "Time",
        "TimeInterval",
        "Tumbling",
        "TupleCount",
        "agg",
        "days",
        "hours",
        "minutes",
        "seconds",
    )
}


def printed(guide: Path = GUIDE) -> dict[str, Any]:
    """What the Python blocks of a guide define, one after the other."""
    names: dict[str, Any] = {"__name__": "guide"}
    for block in blocks_of(guide):
        if block.language == "python":
            exec(block.text, names)  # noqa: S102 -- our own page
    return names


def test_the_test_that_the_guide_prints_passes() -> None:
    """A reader who copies both blocks has a green test."""
    names = printed()
    (test,) = [name for name in names if name.startswith("test_")]
    names[test]()


def test_the_page_on_scripts_prints_a_test_that_passes() -> None:
    """And a script for several inputs."""
    names = printed(ROOT / "docs" / "testing.md")
    (test,) = [name for name in names if name.startswith("test_")]
    names[test]()
    assert len(names["rows"]) == 1


@pytest.mark.parametrize("page", ["late-data.md", "operators.md", "rows-that-fail.md", "watermark.md"])
def test_the_programs_of_the_short_guides_run_as_printed(page: str) -> None:
    """With what they assert."""
    assert printed(ROOT / "docs" / page)


def test_the_page_on_rows_that_fail_has_each_reason() -> None:
    """Those by which Panekeeper puts a row, or what could not be computed, into the quarantine."""
    page = (ROOT / "docs" / "rows-that-fail.md").read_text(encoding="utf-8")
    named = {
        name for module in (row_checks, quarantine, protocol) for name, value in vars(module).items() if name == value
    }
    assert len(named) > 10
    assert {reason for reason in named if f" {reason}" not in page} == set()


def test_the_operator_that_the_guide_prints_keeps_its_state_from_batch_to_batch() -> None:
    """In the core, too, where its state goes through the stored bytes."""
    operator = printed()["Lifetime"]()
    spec = JobSpec(
        window=Tumbling(Count(2)),
        keys=KEYS,
        columns=pa.schema([("key", pa.string()), ("value", pa.float64())]),
        operator=operator,
        output=pa.schema([("total", pa.float64()), ("windows", pa.int64())]),
        handlers=(operator,),
    )
    store, emitted = MemoryStore(), []
    for number, lot in enumerate(([1.0, 2.0], [4.0, 8.0])):
        table = pa.table({"key": ["a", "a"], "value": lot, ARRIVAL_TIME: pa.array([number, number], pa.int64())})
        results = run(spec, store, number, Rows(table)).results
        assert results is not None
        emitted += results.select(["total", "windows"]).to_pylist()
    assert emitted == [{"total": 3.0, "windows": 1}, {"total": 15.0, "windows": 2}]


def test_the_operator_on_its_page_emits_what_its_column_says() -> None:
    """For an event with rows."""
    rows: list[dict[str, Any]] = []
    event = Event(EventType.TRIGGER, "a", lambda: pa.table({"speed": [50.0, 41.5, 60.0]}))
    printed(ROOT / "docs" / "operators.md")["Spread"]().handle_event(event, lambda **row: rows.append(row))
    assert rows == [{"spread": 18.5}]


def test_the_site_begins_with_the_program_of_the_readme_and_what_it_prints() -> None:
    """Which `integration_tests/test_readme.py` runs."""
    readme = blocks_of(ROOT / "README.md")
    site = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    first = next(place for place, block in enumerate(readme) if block.language == "python")
    assert readme[first].text in site
    printed = [line.strip("|").split("|") for line in readme[first + 1].text.splitlines() if line.startswith("|")]
    assert len(printed) == 4
    for line in printed:
        assert f"| {' | '.join(cell.strip() for cell in line)} |" in site


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_rows_of_each_example_give_the_table_below_them(page: Path) -> None:
    """`python -m tests.project.window_tables` writes the tables anew."""
    text, examples = with_results(page)
    assert text == page.read_text(encoding="utf-8")
    assert examples > 0


def declarations_in(page: str) -> list[str]:
    """Return the code between single backticks that declares a window, a policy or an aggregate in full."""
    found = []
    for code in re.findall(r"`([^`\n]+)`", (ROOT / page).read_text(encoding="utf-8")):
        try:
            call = ast.parse(code, mode="eval").body
        except SyntaxError:
            continue
        names = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
        has_gap = any(isinstance(node, ast.Constant) and node.value is Ellipsis for node in ast.walk(call))
        if isinstance(call, ast.Call) and names <= DECLARATIONS.keys() and not has_gap:
            found.append(code)
    return found


@pytest.mark.parametrize("page", ["README.md", "docs/coming-from.md", "docs/windows.md", "docs/early-results.md"])
def test_every_declaration_that_a_page_names_is_accepted(page: str) -> None:
    """A window, policy or aggregate can be copied from the pages as it stands there."""
    found = declarations_in(page)
    assert len(found) > 1
    for code in found:
        eval(code, dict(DECLARATIONS))  # noqa: S307 -- our own page


def modules_with_examples() -> list[str]:
    """Return the modules whose docstrings have examples."""
    return [module_of(path) for path in PRODUCT if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("module", modules_with_examples())
def test_every_example_in_a_docstring_gives_what_it_prints(module: str) -> None:
    """The examples of a module run on their own, in a fresh namespace."""
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted > 0
    assert result.failed == 0


def test_the_index_of_the_documentation_links_to_every_page() -> None:
    """A page without a link from docs/README.md is hard to find."""
    docs = ROOT / "docs"
    linked = set(re.findall(r"\]\(([\w./-]+\.md)\)", (docs / "README.md").read_text(encoding="utf-8")))
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} - {"README.md"}
    assert pages - linked == set()
