"""How a declaration, a job or a result is shown: one description of it, from which come text, HTML, JSON and `rich`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from html import escape
from inspect import get_annotations
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, cast

from panekeeper.framework.declarations.parameters import shown_object
from panekeeper.state.duration_text import duration_text, us_text

if TYPE_CHECKING:
    from rich.console import RenderableType

_KILO = 1000.0
_PRE = "white-space:pre-wrap"


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


def format_number(number: float | None) -> str:
    """Return a number; "none" if there is none.

    >>> format_number(1234567), format_number(None)
    ('1,234,567', 'none')
    """
    return "none" if number is None else f"{round(number, 1):,}"


def format_age(seconds: float | None) -> str:
    """Return how long something is or was ago; "none" if that is not known."""
    return "none" if seconds is None else duration_text(seconds)


def printable(text: str) -> str:
    r"""Return a text from a file in one line, without what a terminal would obey.

    >>> printable("a\x1b[2J\nb")
    'a\\x1b[2J\\nb'
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def call_text(made: Any, *first: Any, without: Collection[str] = ()) -> str:
    """Return a dataclass as a call that makes it again, without what is the default.

    `first` stands first, in place of the fields `without`, where the constructor takes other arguments than fields.
    """
    names = dict.fromkeys(name for kind in type(made).__mro__ for name in get_annotations(kind))
    known = {
        declared_field.name: declared_field
        for declared_field in fields(made)
        if declared_field.init and declared_field.name not in without
    }
    arguments = [*map(_argument, first)]
    for field in (known[name] for name in names if name in known):
        value = getattr(made, field.name)
        if repr(value) != repr(field.default):  # `!=` of a column of Spark's is no truth
            is_named = bool(first) or field.kw_only
            arguments.append(f"{field.name}={_argument(value)}" if is_named else _argument(value))
    return f"{type(made).__name__}({', '.join(arguments)})"


def _argument(value: Any) -> str:
    return repr(us_text(round(value / timedelta(microseconds=1))) if isinstance(value, timedelta) else value)


class Called:
    """A declaration, which is shown as the call that makes it: `TimeInterval('10 minutes', discard_age='1 hour')`."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        setattr(cls, "__repr__", cls.__repr__)  # noqa: B010 -- before `dataclass` makes one, with all that is within

    def __repr__(self) -> str:
        return call_text(self) if is_dataclass(type(self)) else shown_object(self)


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
        return f'<pre style="{_PRE}">{escape(str(self))}</pre>'


@dataclass(frozen=True)
class TextTable:
    """Rows of texts, below their heads if they have any; a text may have several lines."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]

    @classmethod
    def of(cls, heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> TextTable:
        """Return a table of values, each in one line; None is a dash."""
        return cls([*heads], [["-" if value is None else printable(str(value)) for value in row] for row in rows])


class Displayed(Printed, ABC):
    """Is shown by what `_described` returns."""

    @abstractmethod
    def _described(self) -> Iterable[Part]:
        """Return what is shown, from top to bottom; the first is a text, the heading."""

    def _repr_html_(self) -> str:
        return as_html(self)

    def __str__(self) -> str:
        return as_text(self)

    def __rich__(self) -> RenderableType:
        from rich.console import Group  # called by rich only, so it is there
        from rich.table import Table
        from rich.text import Text

        shown: list[RenderableType] = []
        for block in _blocks(self):
            if isinstance(block, str):
                shown.append(Text(block, "" if shown else "bold"))
                continue
            table = Table(show_header=bool(block.heads), box=None, pad_edge=False)
            for at, head in enumerate(block.heads or ("name", "value")):
                table.add_column(Text(head), style="" if block.heads or at else "dim")
            for row in block.rows:
                table.add_row(*map(Text, row))
            shown.append(table)
        return Group(*shown)


Part = str | Mapping[str, Any] | TextTable | Displayed
"""Of a description: a text; names with values, of which those of None are left out; a table; another description."""


class Result(Displayed):
    """What a command of `panekeeper` prints: a dataclass, whose fields are those of its JSON."""

    _computed: ClassVar[Mapping[str, str]] = {}
    """Further fields of the JSON -> the property that each is."""
    _not_in_json: ClassVar[Collection[str]] = ()
    """Fields that the JSON does not have."""

    def fields(self) -> dict[str, Any]:
        """Return it as JSON-able fields, as `--json` prints them."""
        own = {name: value for name, value in asdict(cast("Any", self)).items() if name not in self._not_in_json}
        return own | {name: getattr(self, computed) for name, computed in self._computed.items()}


def _blocks(*parts: Part) -> Iterator[str | TextTable]:
    """Yield the texts and tables of a description."""
    for part in parts:
        if isinstance(part, Displayed):
            yield from _blocks(*part._described())  # noqa: SLF001 -- a description is made for this
        elif isinstance(part, Mapping):
            yield TextTable((), [(name, "\n".join(_lines(value))) for name, value in part.items() if value is not None])
        else:
            yield part


def as_text(*parts: Part) -> str:
    """Return what is described as lines; the columns of a table have equal widths, but for the last.

    >>> print(as_text("job x: running", {"rows": 1234, "watermark": None, "errors": {"A": 1, "B": 2}}))
    job x: running
      rows    1,234
      errors  A: 1
              B: 2
    >>> print(as_text(TextTable.of("ab", [(12, None)])))
    a   b
    12  -
    """
    return "\n".join(line for block in _blocks(*parts) for line in _text_lines(block))


def _text_lines(block: str | TextTable) -> Iterator[str]:
    if isinstance(block, str):
        yield block
        return
    rows = [block.heads, *block.rows] if block.heads else [(f"  {name}", value) for name, value in block.rows]
    cells = [line for row in rows for line in zip_longest(*(text.split("\n") for text in row), fillvalue="")]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    yield from ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells)


def as_html(*parts: Part) -> str:
    """Return the same as HTML without a style of its own, so that it looks like the page."""
    return f"<div>{''.join(_html(block, is_heading=not at) for at, block in enumerate(_blocks(*parts)))}</div>"


def _html(block: str | TextTable, *, is_heading: bool) -> str:
    if isinstance(block, str):
        return f"<b>{escape(block)}</b>" if is_heading else f'<pre style="{_PRE};margin:0">{escape(block)}</pre>'
    first = "td" if block.heads else "th"
    rows = ["".join(_cell("td" if at else first, text) for at, text in enumerate(row)) for row in block.rows]
    if block.heads:
        rows.insert(0, "".join(_cell("th", head) for head in block.heads))
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _cell(tag: str, text: str) -> str:
    style = "text-align:left" + (";overflow-wrap:anywhere" if tag == "td" else "")
    return f'<{tag} style="{style}">{escape(text).replace(chr(10), "<br>")}</{tag}>'


def _lines(value: Any) -> list[str]:
    """Return a value as lines: those of a mapping below each other, times to the second, in UTC."""
    if isinstance(value, Mapping):
        return [line for name, inner in value.items() for line in _below(f"{name}: ", _lines(inner))] or ["none"]
    if isinstance(value, datetime):
        return [f"{value:%Y-%m-%d %H:%M:%S} UTC"]
    if isinstance(value, int) and not isinstance(value, bool):
        return [f"{value:,}"]
    if isinstance(value, float):
        return [f"{value:,.1f}"]
    return str(value).splitlines() or [""]


def _below(name: str, lines: list[str]) -> list[str]:
    return [f"{name if not at else ' ' * len(name)}{line}" for at, line in enumerate(lines)]
