"""A folder of small files on a local disk."""

from __future__ import annotations

from pathlib import Path

from panekeeper.state.checkpoint.folder import LocalFolder


def test_what_is_removed_is_gone_with_all_that_is_in_it(tmp_path: Path) -> None:
    """A file, with the checksum that Hadoop has written beside it; a folder; and what is not there is no error."""
    folder = LocalFolder(tmp_path)
    for name in ("batch/part-0", "batch/inner/part-1", "record", ".record.crc", "stays"):
        folder.write(name, b"")
    for name in ("batch", "record", "never"):
        folder.remove(name)
    assert [path.name for path in tmp_path.iterdir()] == ["stays"]
