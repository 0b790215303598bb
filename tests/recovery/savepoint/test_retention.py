"""A savepoint warns of tables that keep old versions for a short time only."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from panekeeper.cli.main import main
from panekeeper.recovery.savepoint.create import short_retention
from panekeeper.recovery.storage.delta_tables import SavedTable
from tests.fake_checkpoint import FakeCheckpoint
from tests.recovery.upgrade.test_check import SAVED

FILES, LOG = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"


def table(folder: Path, *commits: dict[str, str] | None) -> str:
    """A Delta log: one commit each, which sets properties or only adds a file."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for version, properties in enumerate(commits):
        action = {"txn": {}} if properties is None else {"metaData": {"id": "a", "configuration": properties}}
        actions = [action] if version else [{"protocol": {}}, action]
        (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    return str(folder)


def warned(path: str) -> list[str]:
    """The warnings for one table."""
    manifest = replace(SAVED, tables={"log": SavedTable(path=path, version=0, sha256="")})
    return short_retention(manifest, None)


def test_deltas_defaults_keep_versions_for_a_week(tmp_path: Path) -> None:
    """A week for files that were removed, thirty days for the log."""
    assert warned(table(tmp_path / "log", {}, None)) == []


@pytest.mark.parametrize(
    ("properties", "names"),
    [
        ({FILES: "interval 1 day"}, [FILES]),
        ({FILES: "interval 167 hours"}, [FILES]),
        ({FILES: "interval 168 hours", LOG: "interval 6 days 23 hours"}, [LOG]),
        ({FILES: "INTERVAL 2 WEEKS"}, []),
        ({FILES: "for ever"}, []),
    ],
)
def test_the_properties_of_a_table_count(tmp_path: Path, properties: dict[str, str], names: list[str]) -> None:
    """Those of the last commit that set any; the warning has the statement that changes them."""
    lines = warned(table(tmp_path / "log", {FILES: "interval 1 hour"}, None, properties, None))
    assert [name for line in lines for name in (FILES, LOG) if name in line] == names
    assert all("SET TBLPROPERTIES" in line and "'interval 7 days'" in line for line in lines)


def test_properties_are_found_in_a_checkpoint_of_the_log(tmp_path: Path) -> None:
    """On an old table the commit that set them was cleaned up."""
    path = table(tmp_path / "log", None)
    kind = pa.struct([("configuration", pa.map_(pa.string(), pa.string()))])
    rows = pa.table({"metaData": pa.array([None, {"configuration": [(FILES, "interval 1 hour")]}], kind)})
    pq.write_table(rows, tmp_path / "log" / "_delta_log" / f"{0:020d}.checkpoint.parquet")
    assert len(warned(path)) == 1


def test_the_command_warns_and_succeeds(
    job: FakeCheckpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The savepoint is made; the warning is on stderr and in the fields."""
    path = table(tmp_path / "log", {FILES: "interval 1 hour"})
    job.tables(log=path)
    to = ["--to", str(tmp_path / "s"), "--no-decode"]
    assert main(["savepoint", str(job.folder), "one", *to, "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("panekeeper savepoint: warning: table log keeps old versions for 1 hour only")
    assert len(json.loads(printed.out)["warnings"]) == 1
