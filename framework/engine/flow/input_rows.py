"""The rows that packing receives: Spark's Arrow batches, gathered, and rejected rows as the intake made their texts.

Arrow batches are small, because Spark does not limit them by bytes (`framework/engine/session/session.py`). Any limits
that a session has give the same rows in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa

from panekeeper.framework.core.job_spec import REJECTED_SCHEMA
from panekeeper.framework.declarations.errors import InputError

_GATHERED_ROWS, _GATHERED_BYTES = 2**18, 2**25
"""Input rows are gathered up to one of these before they are split into segments."""


def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Return the rows of consecutive Arrow batches together: as many as are worth sorting by group at once."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GATHERED_ROWS or size >= _GATHERED_BYTES:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def rejected_rows(texts: list[str]) -> pa.Table:
    """Return rejected rows from their JSON texts, which omit null fields."""
    rows = [json.loads(text) for text in texts]
    return pa.table(
        {f.name: pa.array([row.get(f.name) for row in rows], f.type) for f in REJECTED_SCHEMA}, schema=REJECTED_SCHEMA
    )


def bad_input(rejected: pa.Table) -> InputError:
    """Return the error of a job that fails on rejected rows."""
    first = rejected.slice(0, 1).to_pylist()[0]
    detail = f" ({first['detail']})" if first["detail"] else ""
    return InputError(
        f"{rejected.num_rows} bad row(s), the first one {first['reason']}{detail}: {first['row']}; "
        'fix the input, or use on_error="quarantine" and start again: this batch is then run once more'
    )
