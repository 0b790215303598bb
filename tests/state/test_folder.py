"""A folder of small files on a local disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from panekeeper.state.checkpoint.folder import LocalFolder


def test_what_is_removed_is_gone_with_all_that_is_in_it(tmp_path: Path) -> None:
    """A file, with the checksum that Hadoop has written beside it; a folder; and what is not there is no error."""
    folder = LocalFolder(tmp_path)
    for name in ("batch/part-0", "batch/inner/part-1", "record", ".record.crc", "stays"):
        folder.write(name, b"")
    for name in ("batch", "record", "never"):
        folder.remove(name)
    assert [path.name for path in tmp_path.iterdir()] == ["stays"]


def test_a_file_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    """Of two processes that create the same file one is told which file that is."""
    folder = LocalFolder(tmp_path)
    folder.write("pulse/1.json", b"first")
    with pytest.raises(FileExistsError, match=r"^pulse/1\.json in .* is already there$"):
        folder.write("pulse/1.json", b"second")
    assert folder.read("pulse/1.json") == b"first"
