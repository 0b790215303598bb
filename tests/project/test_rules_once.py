"""A rule of when something fires, closes or leaves is in the window that does it, and nowhere a second time."""

from __future__ import annotations

import ast

import pytest

from tests.project.sources import ROOT

INSPECTION = ROOT / "framework" / "core" / "inspection"
DECIDES = {
    *("emit", "early", "refire", "fires_when", "then", "fill", "late"),
    *("discard_age", "discard_age_us", "age_us", "gap_us", "max_duration", "max_duration_us", "fill_for_us"),
    *("when_full", "catch_up", "period_us", "event_time_us", "size_us"),
}
"""Options of windows and policies by which something fires, closes or leaves."""
BUILT_AGAIN = "recorded_windows.py"
"""Builds the windows from what is recorded of them, so it names every option."""


def options_in(source: str) -> set[str]:
    """The options that a file reads: as attributes, or as recorded fields."""
    nodes = [*ast.walk(ast.parse(source))]
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    keys = [node.slice for node in nodes if isinstance(node, ast.Subscript)]
    return (read | {str(key.value) for key in keys if isinstance(key, ast.Constant)}) & DECIDES


@pytest.mark.parametrize("name", sorted(path.name for path in INSPECTION.glob("*.py") if path.name != BUILT_AGAIN))
def test_who_looks_at_a_key_group_reads_no_option_that_decides(name: str) -> None:
    """What comes next is asked of the windows; how long rows are kept is given on to those who keep them."""
    allowed = {"age_us"} if name == "kept_rows.py" else set[str]()
    assert options_in((INSPECTION / name).read_text()) <= allowed


def test_an_option_that_is_read_is_found() -> None:
    """As an attribute of the window, and as a field of what is recorded."""
    assert options_in("fires = ends if window.emit == 'on_complete' else ends + fields['discard_age_us']") == {
        "emit",
        "discard_age_us",
    }
