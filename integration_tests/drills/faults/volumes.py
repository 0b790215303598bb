"""How the volume of some folders is taken away from stopped jobs, and put back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Literal

from integration_tests.drills.faults.damage import FaultNotConfirmed

CHECKPOINT = "checkpoint"


class MissingVolume:
    """Folders of some jobs that were moved away, as if their volume was not mounted."""

    def __init__(self, away: Path, *, leaving: Literal["nothing", "empty folders"]) -> None:
        """Move nothing yet.

        Args:
            away: a new folder, to which they are moved.
            leaving: what is in their place: nothing, or the empty folders on which a volume is mounted.
        """
        self._away = away
        self._leaves_folders = leaving == "empty folders"
        self._moved: list[tuple[Path, Path]] = []

    def take(self, job: Path, what: Literal["tables", "checkpoint"]) -> int:
        """Move the tables or the checkpoint of a job away.

        Args:
            job: the folder of the job.
            what: which of them.

        Returns:
            The number of files.

        Raises:
            FaultNotConfirmed: there is none.
        """
        folders = [one for one in sorted(job.iterdir()) if (one.name == CHECKPOINT) == (what == "checkpoint")]
        files = sum(path.is_file() for one in folders for path in one.rglob("*"))
        if not files:
            raise FaultNotConfirmed(f"{job} holds no file of the {what}, so nothing is missing")
        for folder in folders:
            away = self._away / job.name / folder.name
            away.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(away)
            self._moved.append((folder, away))
            if self._leaves_folders:
                folder.mkdir()
        return files

    def put_back(self) -> dict[str, str]:
        """Put the folders back, in place of what is there.

        Returns:
            By job, what was written in the place of a folder that was missing.
        """
        written: dict[str, str] = {}
        for folder, away in self._moved:
            found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
            if found or (folder.exists() and not self._leaves_folders):
                names = f" with {', '.join(found[:3])}" if found else ""
                written.setdefault(folder.parent.name, f"{folder} was made again{names}, while its volume was missing")
            shutil.rmtree(folder, ignore_errors=True)
            away.rename(folder)
        self._moved.clear()
        return written
