"""The newest rows of a Delta table, read by the library `deltalake`: no Spark is started for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake.exceptions import DeltaError

from panekeeper.framework.engine.sink.delta_log import newest_first
from panekeeper.framework.engine.sink.library_rules import UnsupportedTable, open_to_read, panic_as_unsupported, text_of
from panekeeper.recovery.storage.delta_tables import delta_options
from panekeeper.recovery.storage.files import Files
from panekeeper.state.checkpoint.job_record import TRANSACTION

FILE = "__filename"
"""Column of Arrow with the file that a row is from."""


def newest_rows(table: Files, columns: Sequence[str], *, most: int) -> tuple[pa.Table, bool]:
    """Return the rows of the newest files, at least the `most` newest rows, and whether there are others.

    Only those of the columns that the table has; and `FILE`, the name of the file of each row. Of a large file, which a
    compaction makes, only the last groups of rows are read. Raises `UnsupportedTable` for a table that only Spark can
    read.
    """
    delta = open_to_read(table.root, delta_options(table))
    files = pa.table(delta.get_add_actions(flatten=True))
    names, times = (files.column(name).to_pylist() for name in ("path", "modification_time"))
    newest = [file_name(name) for _, name in sorted(zip(times, names, strict=True), reverse=True)]
    try:
        with panic_as_unsupported():
            whole = delta.to_pyarrow_dataset()
    except (DeltaError, OSError) as error:
        raise UnsupportedTable(f"the library cannot read it: {text_of(error)}") from error
    fragments = {file_name(part.path): part for part in whole.get_fragments()}
    parts, rows, is_cut = [], 0, False
    for part in (part for name in newest for part in reversed(fragments[name].split_by_row_group())):
        if rows >= most:
            is_cut = True
            break
        parts.append(part)
        rows += sum(group.num_rows for group in part.row_groups)
    chosen = ds.FileSystemDataset(parts, whole.schema, whole.format, whole.filesystem)
    found = chosen.to_table([*(name for name in columns if name in whole.schema.names), FILE])
    place = found.column_names.index(FILE)
    coded = found.column(FILE).combine_chunks().dictionary_encode()
    short = pa.array([file_name(one) for one in coded.dictionary.to_pylist()], pa.string())
    return found.set_column(place, FILE, pa.DictionaryArray.from_arrays(coded.indices, short)), is_cut


def file_name(path: str) -> str:
    """Return the last part of a path, as the log of a table or a file system spells it."""
    return PurePosixPath(unquote(path)).name


def commits_of(table: Files, job: str, *, most: int) -> tuple[dict[int, int], dict[str, int]]:
    """Return batch -> when the table had it, in us, and file -> the batch that wrote it, of the newest commits.

    Of the commits that the log of the table still has; those of other programs have no batch.
    """
    written, batches = dict[int, int](), dict[str, int]()
    for commit in islice(newest_first(table), most):
        for app_id, batch in commit.transactions.items():
            if not (found := TRANSACTION.fullmatch(app_id)) or found[1] != job:
                continue
            if commit.written_us is not None:
                written.setdefault(batch, commit.written_us)
            batches |= {PurePosixPath(name).name: batch for name in commit.added}
    return written, batches
