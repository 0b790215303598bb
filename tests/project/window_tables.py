"""The examples on the pages of windows: the rows of each, played through its code, give the table below them.

`python -m tests.project.window_tables` writes these tables anew.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import panekeeper
from panekeeper.framework.declarations.windows import Window
from panekeeper.testing import Results, run
from tests.project.sources import ROOT

PAGES = [ROOT / "docs" / name for name in ("windows.md", "early-results.md", "aggregates.md", "duplicates.md")]
_NAMES: dict[str, Any] = {name: getattr(panekeeper, name) for name in panekeeper.__all__}
_DAY = "2024-05-01"
"""The day of a time that stands without one."""


@dataclass(frozen=True)
class Example:
    """Code that declares a stream and ends with a window and its aggregates; rows; and the columns to be shown.

    Attributes:
        code: a program, in which `windowed(stream, ...)` is the stream of the rows.
        rows: a table of Markdown.
        columns: those of the log that the page shows.
    """

    code: str
    rows: str
    columns: list[str]

    def results(self) -> list[str]:
        """The rows of the log, as lines of a table."""
        names, *rows = _cells(self.rows)
        types = {"at": "timestamp", "is_last": "boolean"}
        schema = {name: types.get(name, "int") for name in names}
        script = [[dict(zip(names, map(self._value, row), strict=True))] for row in rows]

        class Stream:
            def __init__(self, _: None, *, name: str, **options: Any) -> None:
                assert name
                self._options = options

            def window(self, window: Window) -> Stream:
                self._window = window
                return self

            def aggregate(self, **aggregates: Any) -> Results:
                text = ", ".join(f"{name} {kind}" for name, kind in schema.items())
                return run(self._window, aggregates=aggregates, schema=text, script=script, **self._options)

        *before, last = [one for one in ast.parse(self.code).body if not isinstance(one, ast.ImportFrom)]
        assert isinstance(last, ast.Expr)
        defined = _NAMES | {"windowed": Stream, "stream": None}
        exec(compile(ast.Module(before, []), "page", "exec"), defined)  # noqa: S102 -- our own page
        log = eval(compile(ast.Expression(last.value), "page", "eval"), defined)  # noqa: S307 -- as above
        return [f"| {' | '.join(self._text(row[name]) for name in self.columns)} |" for row in log]

    @property
    def _zone(self) -> ZoneInfo:
        named = re.search(r'zone="([\w/]+)"', self.code)
        return ZoneInfo(named[1] if named else "UTC")

    def _value(self, cell: str) -> Any:
        if ":" in cell:
            return datetime.fromisoformat(cell if "-" in cell else f"{_DAY} {cell}").replace(tzinfo=self._zone)
        return cell == "true" if cell.isalpha() else int(cell)

    def _text(self, value: Any) -> str:
        if isinstance(value, list):
            return ", ".join(map(self._text, value))
        if isinstance(value, datetime):
            return f"{value.astimezone(self._zone):%Y-%m-%d %H:%M}".removeprefix(f"{_DAY} ")
        if isinstance(value, bool):
            return str(value).lower()
        return f"{value:g}" if isinstance(value, float) else str(value)


def with_results(page: Path) -> tuple[str, int]:
    """Return the text that a page should have, and how many examples are in it."""
    blocks = page.read_text(encoding="utf-8").split("\n\n")
    before, examples = "", 0
    for place, block in enumerate(blocks):
        if not block.startswith("```python\n"):
            continue
        code = block.removeprefix("```python\n").removesuffix("\n```")
        if ".aggregate(" not in code:
            before += f"{code}\n"
            continue
        head, rule = blocks[place + 2].splitlines()[:2]
        example = Example(before + code, rows=blocks[place + 1], columns=_cells(head)[0])
        blocks[place + 2] = "\n".join([head, rule, *example.results()])
        examples += 1
    return "\n\n".join(blocks), examples


def _cells(table: str) -> list[list[str]]:
    """The cells of a table of Markdown, without the rule below its head."""
    lines = [line for line in table.splitlines() if not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_results(page)[0], encoding="utf-8")
