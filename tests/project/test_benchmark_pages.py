"""What the pages say of the benchmarks is what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import RESULTS
from benchmarks.pages import between_marks, pages
from benchmarks.report import read
from benchmarks.scaling.__main__ import PAGE as SCALING_PAGE
from benchmarks.scaling.__main__ import RESULTS as SCALING_RESULTS
from benchmarks.scaling.page import page as scaling_page
from benchmarks.soak.__main__ import PAGE as SOAK_PAGE
from benchmarks.soak.__main__ import RESULTS as SOAK_RESULTS
from benchmarks.soak.report import page as soak_page
from tests.project.sources import ROOT, name_of


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "benchmarks" / "README.md"], ids=name_of)
def test_a_page_has_the_figures_of_the_results(page: Path) -> None:
    """Tables and sentences are made from `results.json`; `python -m benchmarks` writes them with it."""
    assert page.read_text(encoding="utf-8") == pages(read(RESULTS))[page]


def test_the_page_on_load_tests_has_the_figures_of_the_last_one() -> None:
    """Its last part is made from the results of `make soak`, which writes both."""
    text = SOAK_PAGE.read_text(encoding="utf-8")
    assert text == between_marks(text, soak_page(read(SOAK_RESULTS)))


def test_the_page_on_scaling_has_the_figures_of_the_last_run() -> None:
    """So have tables and picture: `python -m benchmarks.scaling --publish` writes all of them."""
    text = SCALING_PAGE.read_text(encoding="utf-8")
    assert text == between_marks(text, scaling_page(read(SCALING_RESULTS)))


def test_a_page_without_marks_is_refused() -> None:
    """Figures that are written nowhere would look as if they were."""
    with pytest.raises(ValueError, match="needs the marks"):
        between_marks("no marks", "text")
