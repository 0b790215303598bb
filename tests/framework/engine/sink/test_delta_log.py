"""What the log of a Delta table says, read without Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from panekeeper.framework.engine.sink.delta_log import (
    Commit,
    has_version,
    newest_first,
    read_table,
    transactions_of,
)
from panekeeper.framework.engine.sink.library_rules import table_of
from panekeeper.state.checkpoint.folder import LocalFolder


@pytest.fixture
def table(tmp_path: Path) -> LocalFolder:
    """A table whose version n has the rows 0 to n, and batch n of a job."""
    for number in range(5):
        once = CommitProperties(app_transactions=[Transaction("job", number)])
        write_deltalake(
            tmp_path,
            pa.table({"n": [number]}),
            mode="append",
            commit_properties=once,
            configuration={"delta.checkpointInterval": "7"},
        )
    return LocalFolder(tmp_path)


@pytest.mark.parametrize("checkpoint", [False, True], ids=["commits", "checkpoint"])
def test_the_log_says_of_a_table_what_the_library_says(table: LocalFolder, checkpoint: bool) -> None:  # noqa: FBT001
    """Also where a checkpoint of it stands for commits that were cleaned up."""
    if checkpoint:
        DeltaTable(table.path).create_checkpoint()
        for version in range(4):
            (table.path / f"_delta_log/{version:020d}.json").unlink()
        write_deltalake(table.path, pa.table({"n": [5]}), mode="append")
    found, expected = read_table(table), table_of(DeltaTable(table.path), table.root)
    assert replace(found, columns="") == replace(expected, columns="")
    assert json.loads(found.columns) == json.loads(expected.columns)
    assert (found.version, found.properties) == (5 if checkpoint else 4, {"delta.checkpointInterval": "7"})
    for app_id, version in (("job", 4), ("other", -1)):
        assert found.last_transaction(app_id) == expected.last_transaction(app_id) == version


def test_where_no_table_is_nothing_is_said(tmp_path: Path) -> None:
    """No version, no id, no transaction, no owner."""
    found = read_table(LocalFolder(tmp_path))
    assert (found.version, found.id, found.columns, found.owner) == (-1, "", "", None)
    assert transactions_of(LocalFolder(tmp_path)) == {}


def test_a_commit_says_what_it_has_done(table: LocalFolder) -> None:
    """Whose it is, which files and how many rows it has added, and to which version it has taken the table back."""
    DeltaTable(table.path).restore(2)
    DeltaTable(table.path).optimize.compact()
    compacted, restored, *_, last = newest_first(table)
    assert (compacted.operation, compacted.restores, compacted.changes_table) == ("OPTIMIZE", None, False)
    assert (restored.operation, restored.restores, restored.changes_table) == ("RESTORE", 2, True)
    assert (last.version, last.transactions, last.is_note) == (0, {"job": 0}, False)
    assert last.added == [Path(DeltaTable(table.path, version=0).file_uris()[0]).name]
    assert [one.rows_added for one in (last, compacted, Commit(0, [{"add": {"path": "x"}}]))] == [1, 3, None]


def test_a_settlement_is_told_by_its_transaction_and_its_rows() -> None:
    """Of any epoch; what a batch has written is none, nor what fences one off."""
    add = {"add": {"path": "x"}}
    settled, batch = ({"txn": {"appId": f"a job@0f{of}", "version": 1}} for of in ("#12#settled", "#12"))
    commits = [Commit(0, [settled, add]), Commit(1, [batch, add]), Commit(2, [settled])]
    assert [one.is_settlement for one in commits] == [True, False, False]


def test_a_checkpoint_of_the_log_as_a_list_has_what_the_commits_before_it_said(table: LocalFolder) -> None:
    """It is JSON where Spark writes it by the newer policy, and the commits may be cleaned up."""
    listed: list[dict[str, Any]] = []
    for version in range(4):
        commit = table.path / f"_delta_log/{version:020d}.json"
        listed += [json.loads(line) for line in commit.read_text().splitlines()]
        commit.unlink() if version < 3 else None
    assert not has_version(table, 4)
    name = f"_delta_log/{3:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    newest = {one["txn"]["appId"]: one for one in listed if "txn" in one}
    others = [*newest.values(), next(one for one in listed if "metaData" in one)]
    (table.path / name).write_text("".join(f"{json.dumps(one)}\n" for one in others))
    assert has_version(table, 4)
    (table.path / f"_delta_log/{4:020d}.json").unlink()
    assert transactions_of(table) == {"job": 3}
    assert [one["name"] for one in json.loads(read_table(table).columns)["fields"]] == ["n"]
