"""Rows of several windows that were folded before they reached their key group: partial rows for each window.

A row is folded if each window folds it. One that is late for any of them stays a row, which all get; so does one that
refines the results of all of them. So the partial rows of each window stand for the same rows, and each of these is
admitted (docs/semantics.md section 19).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.panes.folding import FoldedRows, PaneFolding
from panekeeper.framework.core.sessions.folding import SessionFolding


def folding_of(spec: JobSpec) -> PaneFolding | SessionFolding | SharedFolding | None:
    """Return the folding of a job's rows; None if something needs the rows themselves, or their order."""
    if spec.windows:
        return SharedFolding.of(spec)
    return SessionFolding.of(spec) if spec.has_sessions else PaneFolding.of(spec)


@dataclass(frozen=True)
class SharedFolding:
    """Folds rows on their way to the key groups. Picklable; sent to the workers.

    Attributes:
        windows: name -> the folding of each window.
    """

    windows: Mapping[str, PaneFolding]

    @classmethod
    def of(cls, spec: JobSpec) -> SharedFolding | None:
        """Return the folding of a job with several windows; None if one of them does not fold.

        Nor does a job with sessions: by which rows came before it a row is too late for them, and partial rows of one
        window come behind the rows that stay.
        """
        foldings = {name: folding_of(window) for name, window in spec.windows.items()}
        windows = {name: folding for name, folding in foldings.items() if isinstance(folding, PaneFolding)}
        return cls(windows) if len(windows) == len(foldings) else None

    def fold(self, rows: pa.Table, watermark: int) -> tuple[dict[str, FoldedRows], np.ndarray] | None:
        """Fold what each window folds at this watermark; return it by window, and the positions of the other rows.

        None: that would not make them much fewer for one of the windows.
        """
        if not rows.num_rows:
            return None
        every = self.windows.values()
        stays = np.logical_or.reduce([folding.stay(rows, watermark) for folding in every])
        stays |= np.logical_and.reduce([folding.refine(rows, watermark) for folding in every])
        left = np.flatnonzero(~stays)
        if len(left) < rows.num_rows:
            rows = rows.take(pa.array(left))
        of_windows: dict[str, FoldedRows] = {}
        for name, folding in self.windows.items():
            folded = folding.fold(rows, watermark)
            if folded is None:
                return None
            of_windows[name] = FoldedRows(folded.table, left[folded.first], folded.rest)
        return of_windows, np.flatnonzero(stays)
