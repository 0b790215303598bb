"""How state files are damaged, and how a disk is filled."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import Literal

_DISK_MB = 64
_BALLAST = "ballast"


class ScenarioNotSupported(Exception):
    """This host lacks what a scenario needs; the message says what. The scenario is skipped, and has not passed."""


class FaultNotConfirmed(Exception):
    """It is not confirmed that a fault had an effect, so the drill shows nothing: its outcome is unknown."""


def damage_state(checkpoint: Path, how: Literal["overwritten", "missing"]) -> int:
    """Damage every file with stored values.

    Args:
        checkpoint: of a stopped job.
        how: overwrite the files, or remove them.

    Returns:
        The number of files.

    Raises:
        FaultNotConfirmed: there is none.
    """
    state = checkpoint / "state" / "0"
    files = [path for kind in ("*.changelog", "*.zip") for path in state.rglob(kind)]
    for path in files:
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        if how == "missing":
            path.unlink()
        else:
            path.write_bytes(b"not what it was")
    if not files:
        raise FaultNotConfirmed(f"{state} holds no state file to damage")
    return len(files)


class SmallDisk:
    """A file system of 64 MB in memory, mounted over a folder, that can be filled.

    Raises:
        ScenarioNotSupported: it cannot be mounted; only root has the right to.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if os.geteuid() != 0 or shutil.which("mount") is None:
            raise ScenarioNotSupported("a full disk needs the right to mount a small one: run the drill as root")
        folder.mkdir(parents=True, exist_ok=True)
        options = ["-t", "tmpfs", "-o", f"size={_DISK_MB}m", "panekeeper-drill", str(folder)]
        ran = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise ScenarioNotSupported(
                f"a full disk needs a small one to be mounted, and mount failed: {ran.stderr.strip()}"
            )

    def fill(self, leaving: int) -> None:
        """Fill the disk until `leaving` bytes are free."""
        fill_disk(self._folder, leaving)

    def free(self) -> None:
        """Remove what `fill` has written."""
        free_disk(self._folder)

    def close(self) -> None:
        """Unmount the disk. Its files are lost."""
        subprocess.run(["umount", str(self._folder)], capture_output=True, check=False)


def fill_disk(folder: Path, leaving: int) -> None:
    """Fill the disk that is mounted over a folder.

    Args:
        folder: the root of its file system.
        leaving: until so many bytes are free.

    Raises:
        FaultNotConfirmed: no disk is mounted there, so another one would be filled.
    """
    if not folder.is_mount():
        raise FaultNotConfirmed(f"{folder} has no disk of its own to fill")
    usage = os.statvfs(folder)
    try:
        with (folder / _BALLAST).open("wb") as ballast:
            ballast.write(bytes(max(usage.f_bavail * usage.f_bsize - leaving, 0)))
    except OSError as error:
        if error.errno != errno.ENOSPC:  # a heartbeat has taken a part of the room meanwhile
            raise


def free_disk(folder: Path) -> None:
    """Remove what `fill_disk` has written."""
    (folder / _BALLAST).unlink(missing_ok=True)
