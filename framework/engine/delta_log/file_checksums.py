"""Hadoop's checksums of files of a table on a local disk: Spark reads no file whose checksum was cut short."""

from __future__ import annotations

from typing import TYPE_CHECKING

from panekeeper.state.spark_logs.checksums import checksum_of, whole_length

if TYPE_CHECKING:
    from panekeeper.state.checkpoint.folder import LocalFolder

_BEGINNING = 8
"""Bytes that say how long a checksum is."""


def cut_short_checksum(table: LocalFolder, name: str) -> str | None:
    """Return what to do about the checksum of a file that is whole, as a sentence without its end; None: nothing.

    Args:
        table: its folder.
        name: of the file in it.
    """
    path, checksum = table.path / name, table.path / checksum_of(name)
    try:
        with checksum.open("rb") as stream:
            wanted = whole_length(stream.read(_BEGINNING), path.stat().st_size)
        if wanted is None or wanted == checksum.stat().st_size:
            return None
    except (FileNotFoundError, PermissionError):  # what another user has written is his to look at
        return None
    return (
        f"{name} in {table.root} is whole, and its checksum {checksum_of(name)} was cut short, as by a "
        "power cut: remove the checksum"
    )
