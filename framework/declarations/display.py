"""How a declaration, a job, a savepoint or a batch is shown: a heading and a table, as HTML, as text, and by `rich`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any

from panekeeper.state.duration_text import us_text

if TYPE_CHECKING:
    from rich.table import Table

_KILO = 1000.0


def format_bytes(size: float) -> str:
    """Return a number of bytes with a decimal unit.

    >>> format_bytes(5), format_bytes(2_500_000)
    ('5 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < _KILO:
            return f"{size:.3g} {unit}"
        size /= _KILO
    return f"{size:.3g} TB"


def call_text(value: Any) -> str:
    """Return a declaration as its call, without what is the default.

    A dataclass that has a text of its own is shown by that.
    """
    if not hasattr(type(value).__repr__, "__wrapped__"):  # that of a dataclass is wrapped, so that it may have cycles
        return repr(us_text(round(value / timedelta(microseconds=1))) if isinstance(value, timedelta) else value)
    given = ((one.name, getattr(value, one.name)) for one in fields(value) if getattr(value, one.name) != one.default)
    return f"{type(value).__name__}({', '.join(f'{name}={call_text(one)}' for name, one in given)})"


def _text(shown: object) -> str:
    """Return the text of an object; its class alone where it has none just now, as of a job whose Java has ended."""
    try:
        return str(shown)
    except Exception:  # noqa: BLE001 -- it is shown in the middle of errors, too
        return f"<{type(shown).__name__}>"


class Printed:
    """A notebook and a prompt show what `print` does."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__repr__" not in vars(cls):
            setattr(cls, "__repr__", _text)  # noqa: B010 -- before `dataclass` makes one, with all that is within

    def _repr_html_(self) -> str:
        return f'<pre style="white-space:pre-wrap">{escape(str(self))}</pre>'


class Displayed(Printed, ABC):
    """Is shown by what `_described` returns, a heading, and names with values; those of None are left out."""

    @abstractmethod
    def _described(self) -> tuple[str, Mapping[str, Any]]:
        """Return the heading, and what stands below it."""

    def _repr_html_(self) -> str:
        return html_table(*self._described())

    def __str__(self) -> str:
        return text_table(*self._described())

    def __rich__(self) -> Table:
        from rich.table import Table  # called by rich only, so it is there
        from rich.text import Text

        title, values = self._described()
        table = Table(title=Text(title, "bold"), title_justify="left", show_header=False, box=None, pad_edge=False)
        for name, value in values.items():
            if value is not None:
                table.add_row(Text(name, "dim"), Text("\n".join(_lines(value))))
        return table


def text_table(title: str, values: Mapping[str, Any]) -> str:
    """Return lines with the same content as `html_table`.

    >>> print(text_table("job x: running", {"rows": 1234, "watermark": None, "errors": {"A": 1, "B": 2}}))
    job x: running
      rows    1,234
      errors  A: 1
              B: 2
    """
    shown = {name: _lines(value) for name, value in values.items() if value is not None}
    width = max(map(len, shown), default=0)
    lines = [
        f"  {'' if at else name:<{width}}  {one}".rstrip()
        for name, found in shown.items()
        for at, one in enumerate(found)
    ]
    return "\n".join([title, *lines])


def html_table(title: str, values: Mapping[str, Any]) -> str:
    """Return HTML without a style of its own, so that it looks like the page; values of None are left out."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left;overflow-wrap:anywhere">{_shown(value)}</td></tr>'
        for name, value in values.items()
        if value is not None
    )
    return f"<div><b>{escape(title)}</b><table>{rows}</table></div>"


def _shown(value: Any) -> str:
    return "<br>".join(map(escape, _lines(value)))


def _lines(value: Any) -> list[str]:
    """Return a value as lines: those of a mapping below each other, times to the second, in UTC."""
    if isinstance(value, Mapping):
        return [line for name, one in value.items() for line in _below(f"{name}: ", _lines(one))] or ["none"]
    if isinstance(value, datetime):
        return [f"{value:%Y-%m-%d %H:%M:%S} UTC"]
    if isinstance(value, int) and not isinstance(value, bool):
        return [f"{value:,}"]
    if isinstance(value, float):
        return [f"{value:,.1f}"]
    return str(value).splitlines() or [""]


def _below(name: str, lines: list[str]) -> list[str]:
    return [f"{name if not at else ' ' * len(name)}{one}" for at, one in enumerate(lines)]
