"""What a result row of a join has of the two rows: keys once, and the other columns of both."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.state.codec import of_type


class JoinedColumns:
    """Makes the columns of result rows: those that are equal, then those of port 0, then those of port 1."""

    def __init__(self, spec: JobSpec) -> None:
        assert spec.join is not None
        self._join = spec.join
        self._ports = spec.ports
        self._types = {field.name: field.type for field in (*spec.keys, *spec.output)}

    def of(self, rows: Sequence[pa.Table | None], number: int) -> list[pa.Array]:
        """Return the columns of so many result rows; `rows` are those of each port, None for one that has no match."""
        port = next(n for n, one in enumerate(rows) if one is not None)
        table = rows[port]
        assert table is not None
        names = self._join.equal[0]
        columns = [self._typed(table, own, name) for own, name in zip(self._join.equal[port], names, strict=True)]
        for own_rows, own_columns in zip(rows, self._join.columns, strict=True):
            for own, name in own_columns.items():
                kind = self._types[name]
                columns.append(pa.nulls(number, kind) if own_rows is None else self._typed(own_rows, own, name))
        return columns

    def _typed(self, table: pa.Table, own: str, name: str) -> pa.ChunkedArray:
        return of_type(table.column(own), self._types[name])
