"""Small files that a power cut cannot cut short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from panekeeper.recovery.storage.files import LocalFiles
from panekeeper.state.checkpoint.folder import LocalFolder


def test_a_small_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, on_fsync: Callable[[Callable[[Path], None]], None]
) -> None:
    """First its content is flushed, then the folder with its name; before both the name of a folder made for it."""
    flushed = []

    def record(path: Path) -> None:
        if path.is_relative_to(tmp_path):  # a thread of another test may still write its own
            flushed.append("folder" if path.is_dir() else "file")

    on_fsync(record)
    for replace in (False, True):
        LocalFolder(tmp_path).write_json("panekeeper/x.json", {}, replace=replace)
    LocalFiles(tmp_path).put_bytes("y.json", b"{}")
    assert flushed == ["folder", *["file", "folder"] * 3]
