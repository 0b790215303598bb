"""Savepoints and the checkpoint that they are of must not lie within one another."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.catalog import verify
from panekeeper.recovery.storage.locations import open_archive
from panekeeper.recovery.upgrade.rescale import rescale
from tests.fake_checkpoint import FakeCheckpoint, savepoint

SPARK: Any = object()


@pytest.mark.parametrize("inside", ["", "/savepoints", "/panekeeper/deep/savepoints"])
def test_savepoints_in_the_checkpoint_are_refused(stored_job: FakeCheckpoint, inside: str) -> None:
    """In the folder itself, and anywhere below it; nothing is written or removed."""
    location, outside = stored_job.root + inside, stored_job.root + "-savepoints"
    savepoint(stored_job.root, "one", to=outside)
    before = stored_job.contents()
    for act in (
        lambda: savepoint(stored_job.root, "two", to=location),
        lambda: rescale(stored_job.root, 4, to=location, spark=SPARK),
    ):
        with pytest.raises(SavepointRefused, match=r"is in the folder of the checkpoint .* move the savepoints"):
            act()
    assert stored_job.contents() == before
    assert open_archive(f"{stored_job.root}-savepoints").sizes()


def test_savepoints_that_are_in_the_checkpoint_by_now_are_not_restored_over_themselves(
    stored_job: FakeCheckpoint,
) -> None:
    """They can be restored to another folder, and stay as they are."""
    location = f"{stored_job.root}/savepoints"
    savepoint(stored_job.root, "one", to=f"{stored_job.root}-savepoints")
    saved = open_archive(f"{stored_job.root}-savepoints")
    for name in saved.sizes():
        content = io.BytesIO()
        saved.get(name, content)
        stored_job.top.child("savepoints").put_bytes(name, content.getvalue())
    for dry_run in (True, False):
        with pytest.raises(SavepointRefused, match="which belongs to its job alone"):
            restore(location, "one", dry_run=dry_run)
    restore(location, "one", checkpoint=f"{stored_job.root}-new")
    verify(location, "one")


def test_a_checkpoint_among_the_blobs_is_refused_and_one_beside_them_is_not(storage: str) -> None:
    """A prune removes what no savepoint needs, but only where savepoints are kept."""
    beside = FakeCheckpoint(f"{storage}/checkpoint").run()
    savepoint(beside.root, "one", to=storage)
    restore(storage, "one")
    among = FakeCheckpoint(f"{storage}/blobs/checkpoint").run()
    with pytest.raises(SavepointRefused, match="is in the folder of the location"):
        savepoint(among.root, "two", to=storage)


def test_an_overlap_is_found_through_links(job: FakeCheckpoint, tmp_path: Path) -> None:
    """A name that only begins like another one is no overlap."""
    (tmp_path / "link").symlink_to(job.folder)
    with pytest.raises(SavepointRefused, match="move the savepoints"):
        savepoint(job.folder, "one", to=tmp_path / "link" / "savepoints")
    with pytest.raises(SavepointRefused, match="move the savepoints"):
        savepoint(tmp_path / "link", "one", to=job.folder / "savepoints")
    savepoint(job.folder, "one", to=f"{job.folder}-savepoints")


def test_savepoints_in_the_folder_of_a_table_are_refused(job: FakeCheckpoint, tmp_path: Path) -> None:
    """VACUUM would remove them. However the table's folder, or theirs, is spelled."""
    (tmp_path / "log").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "log")
    job.tables(log=f"file:{tmp_path}/log", view=f"{tmp_path}/saved/blobs/view")
    for location in (tmp_path / "log", tmp_path / "log" / "saved", tmp_path / "link" / "saved", f"file:{tmp_path}/log"):
        with pytest.raises(SavepointRefused, match=r"is in the folder of the table .*/log, where VACUUM removes"):
            savepoint(job.folder, "one", to=location)
    with pytest.raises(SavepointRefused, match=r"the table .*/view is in the folder of the location"):
        savepoint(job.folder, "one", to=tmp_path / "saved")
    job.tables()
    savepoint(job.folder, "one", to=tmp_path / "log" / "saved")
