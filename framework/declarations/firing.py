"""When a window of event time fires, and what a firing shows: options that all such windows share.

A cell below is what one partition has in one pane (docs/semantics.md section 6.7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from panekeeper.framework.declarations.errors import DeclarationError

Emit = Literal["on_complete", "on_close", "on_update"]
"""Which firings a pane has without further rules (docs/semantics.md section 6.7)."""


@dataclass(frozen=True, kw_only=True)
class FiringOptions:
    """The options of a window of event time that say when its panes fire.

    Attributes:
        emit: `"on_complete"`: when the watermark reaches the end, and again for late rows; `"on_close"`: once, when the
            pane closes; `"on_update"`: after each micro-batch that changed it, too.
    """

    emit: Emit = "on_complete"

    def require_possible_firing(self) -> None:
        """Raise `DeclarationError` for options that contradict each other, or by which nothing could ever fire."""
        require_one_of(("on_complete", "on_close", "on_update"), self.emit, "emit")

    @property
    def keeps_firings(self) -> bool:
        """Whether each cell needs a record of how often it fired, and of the rows since."""
        return self.emit == "on_update"

    def firing_declaration(self) -> dict[str, Any]:
        """Return the options that are not the default: none may change between two runs on one checkpoint."""
        return {} if self.emit == "on_complete" else {"emit": self.emit}


def require_one_of(choices: tuple[str, ...], value: object, what: str) -> None:
    """Raise `DeclarationError` unless the value is one of these texts; `what` is its name in the error."""
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise DeclarationError(f"{what} is {value!r}; it must be {', '.join(others)} or {last}")
