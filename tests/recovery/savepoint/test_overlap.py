"""Savepoints and the checkpoint that they are of must not lie within one another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recovery.errors import SavepointRefused
from recovery.restore.restore import restore
from recovery.savepoint.catalog import verify
from recovery.storage.locations import open_archive
from recovery.upgrade.rescale import rescale
from tests.recovery.conftest import FakeCheckpoint, savepoint

SPARK: Any = object()


@pytest.mark.parametrize("inside", ["", "/savepoints", "/panekeeper/deep/savepoints", ".incoming/savepoints"])
def test_savepoints_in_the_checkpoint_are_refused_before_a_restore_removes_them(
    placed: FakeCheckpoint, inside: str
) -> None:
    """In the folder itself, anywhere below it, and where its copy will stand; nothing is written or removed."""
    location, outside = placed.place + inside, placed.place + "-savepoints"
    savepoint(placed.place, "one", to=outside)
    before = placed.contents()
    for act in (
        lambda: savepoint(placed.place, "two", to=location),
        lambda: rescale(placed.place, 4, to=location, spark=SPARK),
    ):
        with pytest.raises(SavepointRefused, match=r"lies in .*/checkpoint, .* move the savepoints"):
            act()
    assert placed.contents() == before
    assert placed.beside() == ["checkpoint", "checkpoint-savepoints"]


def test_savepoints_that_came_to_lie_in_the_checkpoint_are_not_restored_over_themselves(placed: FakeCheckpoint) -> None:
    """They can be restored to another folder, and stay as they are."""
    location = f"{placed.place}/savepoints"
    savepoint(placed.place, "one", to=f"{placed.place}-savepoints")
    saved = open_archive(f"{placed.place}-savepoints")
    for name in saved.sizes():
        placed.files.child("savepoints").put_bytes(name, placed.files.parent().read(f"checkpoint-savepoints/{name}"))
    for dry_run in (True, False):
        with pytest.raises(SavepointRefused, match="a restore replaces that folder with all in it"):
            restore(location, "one", dry_run=dry_run)
    restore(location, "one", checkpoint=f"{placed.place}-new")
    verify(location, "one")


def test_a_checkpoint_among_the_blobs_is_refused_and_one_beside_them_is_not(place: str) -> None:
    """A prune removes what no savepoint needs, but only where savepoints are kept."""
    beside = FakeCheckpoint(f"{place}/checkpoint").run()
    savepoint(beside.place, "one", to=place)
    restore(place, "one")
    among = FakeCheckpoint(f"{place}/blobs/checkpoint").run()
    with pytest.raises(SavepointRefused, match="lies among the files of the location"):
        savepoint(among.place, "two", to=place)


def test_a_folder_is_known_by_whatever_link_it_is_named(job: FakeCheckpoint, tmp_path: Path) -> None:
    """And a name that only begins like another is another."""
    (tmp_path / "link").symlink_to(job.folder)
    with pytest.raises(SavepointRefused, match="move the savepoints"):
        savepoint(job.folder, "one", to=tmp_path / "link" / "savepoints")
    with pytest.raises(SavepointRefused, match="move the savepoints"):
        savepoint(tmp_path / "link", "one", to=job.folder / "savepoints")
    savepoint(job.folder, "one", to=f"{job.folder}-savepoints")
