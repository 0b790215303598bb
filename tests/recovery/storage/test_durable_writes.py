"""Small files that a power cut cannot cut short."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recovery.storage.local_files import LocalFiles
from state.checkpoint.folder import LocalFolder


def test_a_small_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First its content is flushed, then the folder with its name; before both the name of a folder made for it."""
    flushed = []
    fsync = os.fsync

    def record(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").resolve()
        if path.is_relative_to(tmp_path):  # a thread of another test may still write its own
            flushed.append("folder" if path.is_dir() else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    for replace in (False, True):
        LocalFolder(tmp_path).write_json("panekeeper/x.json", {}, replace=replace)
    LocalFiles(tmp_path).put_bytes("y.json", b"{}")
    assert flushed == ["folder", *["file", "folder"] * 3]
