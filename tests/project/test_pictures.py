"""The pictures of the pages are what the windows are today."""

from __future__ import annotations

from tests.project.pictures import pictures
from tests.project.sources import ROOT, name_of


def test_each_picture_is_the_window_that_its_text_declares() -> None:
    """None is stale, and none is left that no page shows: `python -m tests.project.pictures` draws them again."""
    drawn = dict(pictures())
    assert len(drawn) > 4
    stale = [name_of(file) for file, svg in drawn.items() if not file.exists() or file.read_text("utf-8") != svg]
    assert stale == []
    assert {*(ROOT / "docs" / "pictures").iterdir()} == {*drawn}
