"""Naive rule of repeats: every row is compared with all rows that have counted, in the order of arrival."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class NaiveRepeats:
    """Which rows are repeats; all times in one unit.

    Attributes:
        within: how far apart the times of equal ids are at most.
        reach: how far behind the watermark a row may be that is not late.
        counted: (id, time) of the rows that have counted, for as long as they are known.
    """

    within: int
    reach: int
    counted: list[tuple[object, int]] = field(default_factory=list)
    repeated: int = 0

    def is_repeat(self, row_id: object, time: int, watermark: int | None, *, is_late: bool) -> bool:
        """Return whether this row is left out."""
        known = [one for one in self.counted if watermark is None or one[1] >= watermark - self.within - self.reach]
        if any(one == row_id and abs(time - at) <= self.within for one, at in known):
            self.repeated += 1
            return True
        if not is_late:
            self.counted.append((row_id, time))
        return False
