"""The tutorial: its notebook runs from the first cell to the last, and shows what its text says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[1] / "docs" / "tutorial.ipynb"


@pytest.mark.release  # as the other guides: CI runs the README's first program
def test_the_tutorial_shows_what_it_says(tmp_path: Path) -> None:
    """A pane fires, a late row corrects it, another one is too late, and a restore takes back what came since.

    The notebook is shipped with these results.
    """
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    shipped = ["".join(texts(cell)) for cell in notebook.cells if cell.cell_type == "code"]
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = ["".join(texts(cell)) for cell in notebook.cells if cell.cell_type == "code"]
    assert shown == shipped, "run `jupyter nbconvert --execute --inplace` on it, and leave out stderr"
    first, corrected, late, restored = (shown[at] for at in (3, 4, 5, 6))
    assert cells(first) == [["a", "2024-05-01 10:00:00", "22.0", "2", "0", "WATERMARK"]]
    assert cells(corrected)[:2] == [*cells(first), ["a", "2024-05-01 10:00:00", "25.0", "3", "1", "LATE"]]
    assert "|LATE" in late
    assert "99.0" in late
    assert "'5 results, 4 after the restore'" in restored


def texts(cell: Any) -> list[str]:
    """What a cell printed, and its value."""
    printed = [output.text for output in cell.outputs if output.output_type == "stream" and output.name == "stdout"]
    return printed + [output.data["text/plain"] for output in cell.outputs if output.output_type == "execute_result"]


def cells(printed: str) -> list[list[str]]:
    """The rows of the tables that Spark printed, without their headers."""
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if row[0] != "sensor"]
