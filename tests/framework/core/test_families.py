"""docs/architecture.md: the table of the families of windows names what there is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.project.sources import ROOT

CORE = ROOT / "framework" / "core"
TABLE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Families of windows")[2]
FAMILIES = re.findall(r"`(\w+)`", next(line for line in TABLE.splitlines() if line.startswith("| part")))
ROWS = [line.strip("|").split("|") for line in TABLE.splitlines() if line.startswith("| ") and "| part" not in line]


def classes_of(path: Path) -> set[str]:
    """Return the classes that the files of a folder, or a file, have."""
    files = path.rglob("*.py") if path.is_dir() else [path]
    return {name for file in files for name in re.findall(r"^class (\w+)", file.read_text(), re.MULTILINE)}


def test_each_family_has_the_parts_that_the_page_names() -> None:
    """A class in the column of a family is in its folder, or is one that it takes from another family."""
    every = classes_of(CORE)
    named = {
        (family, name)
        for cells in ROWS[1:]
        for family, cell in zip(FAMILIES, cells[1:], strict=True)
        for name in re.findall(r"`([A-Z]\w+)`", cell)
    }
    assert FAMILIES == ["panes", "sessions", "by_row", "joins", "arrival"]
    assert {name for _, name in named} <= every
    taken = {(family, name) for family, name in named if name not in classes_of(CORE / family)}
    assert taken == {
        ("by_row", "KeptRows"),
        ("by_row", "RowStorage"),
        ("joins", "PaneRows"),
        ("joins", "PaneResults"),
        ("joins", "RowStorage"),
    }


def test_each_protocol_is_where_the_page_says() -> None:
    """The first column names a protocol and its file, in the folder of each family if it is `protocol.py`."""
    protocols = {name: cells[0] for cells in ROWS[1:] for name in re.findall(r"`([A-Z]\w+)`", cells[0])}
    assert len(protocols) > len(FAMILIES)
    for name, text in protocols.items():
        (file,) = {one for one in re.findall(r"`(\w+\.py)`", text) if name in classes_of_files(one)}
        assert file in {
            *("protocol.py", "key_group.py", "event_time_batch.py"),
            *("past_firings.py", "outlook.py", "result_rows.py"),
        }


def classes_of_files(name: str) -> set[str]:
    """Return the classes of all files of this name in the core."""
    return {one for path in CORE.rglob(name) for one in classes_of(path)}
