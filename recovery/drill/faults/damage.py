"""The damage that is not a kill: files overwritten or removed, a disk that is full."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Literal

_DISK_MB = 64


class CannotDrill(Exception):
    """This machine lacks what a scenario needs; the message says what. The scenario is skipped, not passed."""


class Missed(Exception):
    """A fault did not hit what it was meant to hit: the drill shows nothing."""


def damage_state(checkpoint: Path, how: Literal["overwritten", "missing"]) -> int:
    """Damage every file that holds stored values, and return how many. Raises `Missed` if there is none."""
    state = checkpoint / "state" / "0"
    files = [path for kind in ("*.changelog", "*.zip") for path in state.rglob(kind)]
    for path in files:
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        if how == "missing":
            path.unlink()
        else:
            path.write_bytes(b"not what it was")
    if not files:
        raise Missed(f"{state} holds no state file to damage")
    return len(files)


class SmallDisk:
    """A file system of its own, in memory, that can be filled to the brim. Mounted over a folder; needs to be root."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if os.geteuid() != 0 or shutil.which("mount") is None:
            raise CannotDrill("a full disk needs the right to mount a small one: run the drill as root")
        folder.mkdir(parents=True, exist_ok=True)
        options = ["-t", "tmpfs", "-o", f"size={_DISK_MB}m", "panekeeper-drill", str(folder)]
        ran = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
        if ran.returncode:
            raise CannotDrill(f"a full disk needs a small one to be mounted, and mount says: {ran.stderr.strip()}")

    @property
    def _ballast(self) -> Path:
        return self._folder / "ballast"

    def fill(self, leaving: int) -> None:
        """Leave so many bytes."""
        told = os.statvfs(self._folder)
        with self._ballast.open("wb") as ballast:
            ballast.write(bytes(max(told.f_bavail * told.f_bsize - leaving, 0)))

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount it; what was on it is gone."""
        subprocess.run(["umount", str(self._folder)], capture_output=True, check=False)
