"""Which folders a new table may be made in."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from panekeeper.framework.engine.sink.library_table import NEW_TABLE
from panekeeper.framework.engine.sink.small_commits import SmallCommits, create_table
from panekeeper.framework.engine.sink.tables import is_free
from panekeeper.state.checkpoint.folder import LocalFolder

PROBE = ".panekeeper-can-write"
SCHEMA = Schema.from_arrow(pa.schema({"n": pa.int64()}))
FIRST = f"{0:020d}"


class ListedByHadoop(LocalFolder):
    """A folder whose hidden files are listed, too."""

    def names(self, folder: str) -> list[str]:
        """Return all names in a folder."""
        path = self.path / folder
        return sorted(one.name for one in path.iterdir()) if path.is_dir() else []


@pytest.mark.parametrize(
    "names",
    [
        [],
        [PROBE],
        [f".{PROBE}.0a1b.tmp"],
        ["_delta_log/"],
        [PROBE, f"_delta_log/.{FIRST}.json.0a1b.tmp", "_delta_log/_commit_0a1b.json.tmp"],
    ],
)
def test_what_a_killed_start_leaves_is_no_reason_to_refuse_a_folder(tmp_path: Path, names: list[str]) -> None:
    """The file by which it found out that it may write, and a log without a commit. A table can be made there."""
    assert is_free(folder(tmp_path, names))
    create_table(str(tmp_path), {}, SCHEMA.to_json(), NEW_TABLE)
    assert SmallCommits(str(tmp_path)).append(pa.table({"n": [1]}), "a", 0)
    assert DeltaTable(tmp_path).to_pyarrow_table().to_pydict() == {"n": [1]}


@pytest.mark.parametrize(
    "names",
    [
        [f"_delta_log/{FIRST}.json"],
        [f"_delta_log/{FIRST}.checkpoint.parquet"],
        ["_delta_log/", "part-0.snappy.parquet"],
        [".hidden"],
        ["rows.csv", PROBE],
    ],
)
def test_anything_else_in_a_folder_is_somebodys(tmp_path: Path, names: list[str]) -> None:
    """A table, files of one, or files of another program."""
    assert not is_free(folder(tmp_path, names))


def folder(path: Path, names: list[str]) -> ListedByHadoop:
    """A folder with these files; a name that ends with a slash is a folder."""
    for name in names:
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).mkdir() if name.endswith("/") else (path / name).touch()
    return ListedByHadoop(path)
