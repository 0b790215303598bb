"""How a declaration, a job or a savepoint is shown in a notebook: a heading and a table of names and values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from html import escape
from typing import Any

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


def html_table(title: str, values: Mapping[str, Any]) -> str:
    """Return HTML without a style of its own, so that it looks like the page; values of None are left out."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{_shown(value)}</td></tr>'
        for name, value in values.items()
        if value is not None
    )
    return f"<div><b>{escape(title)}</b><table>{rows}</table></div>"


def _shown(value: Any) -> str:
    """Return a value as HTML: those of a mapping below each other, times to the second, in UTC."""
    if isinstance(value, Mapping):
        return "<br>".join(f"{escape(str(name))}: {_shown(one)}" for name, one in value.items())
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return escape(str(value))
