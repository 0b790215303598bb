"""Which rows does a table have, read without Spark? Those of some times, those of some files, or the newest.

Spark's first read of a Delta table in a session costs more than all else that an answer about one key needs. The rows
of some times, and those of files, are read where the table is plain: on a local disk, without deletion vectors. The
newest ones are read wherever the library reads a table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from panekeeper.framework.engine.sink.library_rules import (
    UnsupportedTable,
    files_of,
    local_folder,
    open_to_read,
    panic_as_unsupported,
    table_of,
    text_of,
)
from panekeeper.recovery.storage.delta_tables import delta_options
from panekeeper.recovery.storage.files import Files
from panekeeper.state.codec import of_type

_MILLISECOND = 1000
_MOST_FILES, _MOST_BYTES = 500, 2**26
"""Of more than that Spark reads a table faster."""
Bounds = tuple[int, int]
FILE = "__filename"
"""Column of Arrow with the file that a row is from."""
_PLAIN_READER = 1
"""Version of Delta's protocol of tables whose rows are what is in their files."""


def read_plain_table(path: str, times: Mapping[str, Bounds], columns: Sequence[str] | None = None) -> pa.Table | None:
    """Return the rows of a table of these times, and the name of their `file`; None if Spark must read it.

    `times` has the least and the greatest time of a column, us. `columns` are those to read; None: all.
    """
    folder = local_folder(path)
    if folder is None:
        return None
    try:
        delta = _plain(folder)
        if delta is None:
            return None
        with panic_as_unsupported():
            wanted = _with(files_of(delta), times)
        if wanted.num_rows > _MOST_FILES or (pc.sum(wanted.column("size_bytes")).as_py() or 0) > _MOST_BYTES:
            return None
        names = [unquote(quoted_name) for quoted_name in wanted.column("path").to_pylist()]
        tables = [_rows(Path(folder), name, times, columns) for name in names]
        if not tables:  # none has such a time, or the table is empty: Spark would take seconds to say so
            kinds = [
                field for field in pa.schema(delta.schema().to_arrow()) if columns is None or field.name in columns
            ]
            tables = [pa.schema([*kinds, pa.field("file", pa.string())]).empty_table()]
    except (UnsupportedTable, DeltaError, OSError, pa.ArrowException):
        return None
    return pa.concat_tables(tables, promote_options="default")


def read_plain_files(path: str, names: Collection[str]) -> dict[str, pa.Table] | None:
    """Return file -> its rows, of files of a table or those that it no longer has; None if Spark must read them."""
    folder = local_folder(path)
    if folder is None:
        return None
    try:
        delta = _plain(folder)
        if delta is None or sum((Path(folder) / name).stat().st_size for name in names) > _MOST_BYTES:
            return None
        schema = pa.schema(delta.schema().to_arrow())
        return {name: _as_now(pq.ParquetFile(Path(folder) / name).read(), schema) for name in names}
    except (UnsupportedTable, DeltaError, OSError, pa.ArrowException):
        return None


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
    chosen_rows = chosen.to_table([*(name for name in columns if name in whole.schema.names), FILE])
    place = chosen_rows.column_names.index(FILE)
    coded = chosen_rows.column(FILE).combine_chunks().dictionary_encode()
    short = pa.array([file_name(path) for path in coded.dictionary.to_pylist()], pa.string())
    return chosen_rows.set_column(place, FILE, pa.DictionaryArray.from_arrays(coded.indices, short)), is_cut


def file_name(path: str) -> str:
    """Return the last part of a path, as the log of a table or a file system spells it."""
    return PurePosixPath(unquote(path)).name


def _as_now(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows as the table has them by now: a column that came later is null."""
    there = {*rows.column_names}
    columns = [
        of_type(rows.column(field.name), field.type) if field.name in there else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, names=schema.names)


def _plain(folder: str) -> DeltaTable | None:
    """Open a table; None if its rows are not what is in its files."""
    delta = open_to_read(folder, {})
    table = table_of(delta, folder)
    return delta if table.protocol.reader == _PLAIN_READER and not table.partition_columns else None


def _with(files: pa.Table, times: Mapping[str, Bounds]) -> pa.Table:
    """Return the files that may have rows of these times, as far as Delta knows their least and greatest, in ms."""
    for name, (least, most) in times.items():
        low, high = (f"{bound}.{name}" for bound in ("min", "max"))
        if {low, high} <= {*files.column_names}:
            before, after = us_of(files.column(low)), pc.add(us_of(files.column(high)), _MILLISECOND)
            may = pc.and_(pc.less_equal(before, most), pc.greater_equal(after, least))
            files = files.filter(pc.fill_null(may, True))
    return files


def us_of(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times, with a zone or without, in us since the epoch."""
    return times.cast(pa.timestamp("us")).cast(pa.int64())


def _rows(folder: Path, name: str, times: Mapping[str, Bounds], columns: Sequence[str] | None) -> pa.Table:
    rows = pq.ParquetFile(folder / name).read(None if columns is None else [*columns])
    for column, (least, most) in times.items():
        row_times = us_of(rows.column(column))
        is_within = pc.and_(pc.greater_equal(row_times, least), pc.less_equal(row_times, most))
        rows = rows.filter(pc.fill_null(is_within, False))
    return rows.append_column("file", pa.array([name.rpartition("/")[2]] * rows.num_rows, pa.string()))
