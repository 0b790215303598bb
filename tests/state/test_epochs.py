"""Which epoch of a checkpoint is current, and how the next one becomes so: in one step, or not at all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from panekeeper.state.checkpoint.epochs import (
    POINTER_FILE,
    Begin,
    Pointer,
    create_pointer,
    current_epoch,
    is_begun,
    make_epoch,
    next_epoch,
    read_begin,
    read_pointer,
    require_no_later_epoch,
    switch,
    write_begin,
)
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.errors import CheckpointError, CorruptState

FIRST = Pointer(name="readings", id="0123456789ab", epoch=0)


@pytest.fixture
def root(tmp_path: Path) -> LocalFolder:
    """A checkpoint in its first epoch."""
    made = LocalFolder(tmp_path)
    made.part("epochs/0000").write("panekeeper/job.json", b"{}")
    create_pointer(made, FIRST)
    return made


def test_messages_call_an_epoch_by_the_name_of_its_checkpoint(root: LocalFolder) -> None:
    """Users give that name to commands; files are in the folder itself."""
    folder = current_epoch(root)
    assert folder is not None
    assert (folder.root, folder.place) == (root.root, f"{root.path}/epochs/0000")


def test_a_folder_without_a_pointer_is_new(tmp_path: Path) -> None:
    """Also one in which a copy is that never became current."""
    assert read_pointer(LocalFolder(tmp_path)) is None
    make_epoch(LocalFolder(tmp_path), 3, Begin(kind="restore"))
    assert current_epoch(LocalFolder(tmp_path)) is None
    assert next_epoch(LocalFolder(tmp_path)) == 4


def test_a_checkpoint_of_an_older_layout_is_refused(tmp_path: Path) -> None:
    """In one line, and nothing is written."""
    folder = LocalFolder(tmp_path)
    folder.write("panekeeper/job.json", b"{}")
    with pytest.raises(CheckpointError, match=r"older layout: it has panekeeper/job\.json and no job\.json"):
        read_pointer(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["panekeeper"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"name": "readings"}', b'{"name": "a", "id": "b", "epoch": "x"}']
)
def test_a_damaged_pointer_names_the_way_out(root: LocalFolder, content: bytes) -> None:
    """Which epoch was current is not guessed."""
    root.write("job.json", content, replace=True)
    with pytest.raises(CorruptState, match=r"job\.json in .* is damaged; restore a savepoint to this folder"):
        read_pointer(root)


def test_a_pointer_to_an_epoch_that_is_gone_names_the_way_out(root: LocalFolder) -> None:
    """The folder was removed by hand, or its volume is missing."""
    root.write("job.json", replace(FIRST, epoch=7).to_bytes(), replace=True)
    with pytest.raises(CorruptState, match=r"points to epoch 7, and epochs/0007 is gone. Put that folder back; or"):
        read_pointer(root)


@pytest.mark.parametrize(("kind", "way_out"), [("reset", "Put .* back; or restore"), ("clone", "clone again")])
def test_epochs_without_a_pointer_are_no_new_checkpoint(
    root: LocalFolder, kind: Literal["reset", "clone"], way_out: str
) -> None:
    """It was removed, or a clone was killed before it: a start would begin with the first epoch again (A6, A11)."""
    require_no_later_epoch(root)
    make_epoch(root, 1, Begin(kind=kind, tables={}))
    root.remove(POINTER_FILE)
    with pytest.raises(CorruptState, match=way_out):
        require_no_later_epoch(root)


def test_of_many_who_switch_at_the_same_time_one_wins(root: LocalFolder) -> None:
    """All have read the same pointer; nobody overwrites what another one has switched to."""
    for epoch in range(1, 9):
        make_epoch(root, epoch, Begin(kind="reset"))
    gate = threading.Barrier(8)

    def switch_to(epoch: int) -> int | None:
        gate.wait()
        try:
            switch(root, FIRST.to_bytes(), replace(FIRST, epoch=epoch))
        except CheckpointError:
            return None
        return epoch

    with ThreadPoolExecutor(8) as pool:
        won = [one for one in pool.map(switch_to, range(1, 9)) if one is not None]
    found = read_pointer(root)
    assert found is not None
    assert won == [found.epoch]


def test_of_two_first_epochs_one_becomes_current(root: LocalFolder) -> None:
    """The same one twice is a request that a store has repeated."""
    create_pointer(root, FIRST)
    with pytest.raises(CheckpointError, match="another process has made a checkpoint"):
        create_pointer(root, replace(FIRST, id="ba9876543210"))


def test_an_epoch_is_made_once(root: LocalFolder) -> None:
    """Its number is that of its transactions in the tables."""
    make_epoch(root, 1, Begin(kind="reset"))
    with pytest.raises(CheckpointError, match="another process is making epoch 1"):
        make_epoch(root, 1, Begin(kind="reset"))
    assert (next_epoch(root), next_epoch(root, [41])) == (2, 42)


def test_what_is_left_to_do_is_read_as_it_was_written(root: LocalFolder) -> None:
    """And an epoch has begun when each step is noted, in whatever process."""
    begin = Begin(kind="restore", savepoint="one", tables={"log": "/log"}, versions={"log": 3}, batch=2)
    folder = make_epoch(root, 1, begin)
    assert read_begin(folder) == begin
    assert not is_begun(folder)
    for step in ("fenced", "taken back", "owned"):
        begin = begin.after(step)
    write_begin(folder, begin)
    assert read_begin(folder) == begin
    assert is_begun(folder)
    assert is_begun(root.part("epochs/0000"))
    folder.write("begin.json", b'{"kind": "restore"}', replace=True)
    with pytest.raises(CorruptState, match=r"begin\.json in .*epochs/0001 is damaged"):
        read_begin(folder)
