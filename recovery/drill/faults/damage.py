"""How state files are damaged, and how a disk is filled."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Literal

_DISK_MB = 64


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

    @property
    def _ballast(self) -> Path:
        return self._folder / "ballast"

    def fill(self, leaving: int) -> None:
        """Fill the disk until `leaving` bytes are free."""
        usage = os.statvfs(self._folder)
        with self._ballast.open("wb") as ballast:
            ballast.write(bytes(max(usage.f_bavail * usage.f_bsize - leaving, 0)))

    def free(self) -> None:
        """Remove what `fill` has written."""
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount the disk. Its files are lost."""
        subprocess.run(["umount", str(self._folder)], capture_output=True, check=False)
