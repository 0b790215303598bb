"""The pictures of the pages: an image whose alternative text declares a window is that window, drawn.

`python -m tests.project.pictures` draws them all again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import panekeeper
from panekeeper.testing import draw
from tests.project.sources import ROOT

_NAMES: dict[str, Any] = {name: getattr(panekeeper, name) for name in panekeeper.__all__ if name[0].isupper()}


def pictures() -> Iterator[tuple[Path, str]]:
    """Yield the file of each picture, and what it should be."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        for text, link in re.findall(r"!\[(\w+\(.*\))\]\((pictures/[\w-]+\.svg)\)", page.read_text(encoding="utf-8")):
            yield page.parent / link, draw(eval(text, dict(_NAMES))).svg  # noqa: S307 -- our own page


if __name__ == "__main__":
    for file, svg in pictures():
        file.parent.mkdir(exist_ok=True)
        file.write_text(svg, encoding="utf-8")
