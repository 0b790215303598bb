"""When do windows by row fire and close, by their last instants? All in us (docs/semantics.md section 18)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panekeeper.framework.declarations.windows import SlidingByRow


@dataclass(frozen=True)
class ByRowTimes:
    """The times of the windows that are declared."""

    window: SlidingByRow

    @property
    def waits_us(self) -> int:
        """How long after a window is complete, by the watermark, it fires without further rules."""
        return self.window.age_us if self.window.emit == "on_close" else 0

    def ready(self, lasts: np.ndarray) -> np.ndarray:
        """Return the watermark at which each fires without further rules."""
        return lasts + 1 + self.waits_us

    def closing(self, lasts: np.ndarray) -> np.ndarray:
        """Return the watermark that closes each."""
        return lasts + 1 + self.window.age_us
