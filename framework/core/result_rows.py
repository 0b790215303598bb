"""The result rows of a batch: partition columns, where the row belongs, what was computed, and how it came about."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.partition_keys import PartitionKeys
from panekeeper.framework.core.quarantine import Quarantine


class ResultRows:
    """Collects the result rows of one window in one batch, beside its quarantine."""

    def __init__(self, spec: JobSpec, keys: PartitionKeys, quarantine: Quarantine) -> None:
        """Begin without rows."""
        self.quarantine = quarantine
        self._spec = spec
        self._keys = keys
        self._tables: list[pa.Table] = []
        self._of_view: list[pa.Table] = []

    def _add(
        self,
        codes: np.ndarray,
        place: Iterable[pa.Array],
        columns: list[pa.Array],
        firing: Iterable[pa.Array],
        *,
        of_view: bool = False,
    ) -> None:
        """Add result rows, one entry of each argument a row: `columns` stand between `place` and `firing`.

        `of_view`: they are for the view only, where the log has others.
        """
        values = [*columns, *self._spec.retired_nulls(len(codes))]
        arrays = [*self._keys.take(codes).columns, *place, *values, *firing]
        rows = pa.table(arrays, schema=self._spec.results_schema)
        (self._of_view if of_view else self._tables).append(rows)

    @property
    def table(self) -> pa.Table | None:
        """All result rows, or None."""
        return pa.concat_tables(self._tables) if self._tables else None

    @property
    def view_table(self) -> pa.Table | None:
        """The rows of the view, where they are others than the result rows, or None."""
        return pa.concat_tables(self._of_view) if self._of_view else None
