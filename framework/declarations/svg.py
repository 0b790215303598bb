"""A picture as SVG: shapes by kind, whose colours a style sheet gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape


@dataclass
class Canvas:
    """Collects shapes, from the back to the front. A shape of a kind has the class `pk-KIND`; `tip` is shown over it.

    Attributes:
        title: what the picture is, for those who do not see it.
        shapes: the elements.
    """

    title: str
    shapes: list[str] = field(default_factory=list)

    def add(self, element: str, tip: str = "") -> None:
        """Add an element that ends in `/>`."""
        name = element[1 : element.index(" ")]
        inner = f"><title>{escape(tip)}</title></{name}>"
        self.shapes.append(element.removesuffix("/>") + inner if tip else element)

    def rect(self, kind: str, x: float, y: float, width: float, height: float, more: str = "", tip: str = "") -> None:
        """Add a box of a width of at least 1."""
        size = f'width="{max(width, 1):.1f}" height="{height:.1f}"'
        self.add(f'<rect class="pk-{kind}" x="{x:.1f}" y="{y:.1f}" {size} {more}/>', tip)

    def line(self, kind: str, x: float, y: float, to_x: float, to_y: float, more: str = "") -> None:
        """Add a straight line."""
        ends = f'x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}"'
        self.add(f'<line class="pk-{kind}" {ends} {more}/>')

    def text(self, kind: str, x: float, y: float, text: str, anchor: str = "start") -> None:
        """Add a text; `anchor` is which end of it is at x."""
        self.shapes.append(
            f'<text class="pk-{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def svg(self, width: float, height: float, before: str = "") -> str:
        """Return the picture; `before` is put behind the shapes."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        font = 'role="img" font-family="system-ui,sans-serif" font-size="12"'
        parts = [f"{head} {font}>", f"<title>{escape(self.title)}</title>", before, *self.shapes, "</svg>"]
        return "\n".join(part for part in parts if part)
