"""What the runner asks of a program, and what the program tells: a JSON file each way, and lines as things happen."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Broken = Literal["sink commits twice", "sink skips a commit", "store forgets"]

SURVIVED_NOT = 3
"""Exit code of a program in which a job failed; the lines tell why."""


@dataclass(frozen=True, kw_only=True)
class Errand:
    """One run of a program.

    Attributes:
        do: run the jobs until all is read; serve until all is read and be drained; serve until all is read and be
            killed; make a savepoint, restore one, or clone one.
        checks: names of the jobs; of a user's own it is `OWN`.
        job: the user's own job file.
        files: the input folder.
        folder: has a folder for each job.
        told: the file of lines.
        point: the fault point at which to die, once each job is there or has ended.
        batch: the first batch that counts.
        until: stop after so many batches; only for a user's own job, whose files are not the drill's to feed.
        victim: who is killed there: the program, its Python workers, or its executors.
        master: of the cluster to run on; this machine's cores, if none.
        ahead_hours: how far the wall clock is ahead of the real one.
        broken: what is wrong with the product, on purpose: a drill must notice.
        name: of the savepoint.
        location: where savepoints live; each job has a place of its own under it.
        endpoint: of the S3.
        killed_at: after which step of a savepoint or restore to die.
    """

    do: Literal["run", "drain", "idle", "savepoint", "restore", "clone"]
    checks: tuple[str, ...]
    job: str | None = None
    files: str
    folder: str
    told: str
    point: str | None = None
    batch: int = 0
    until: int | None = None
    victim: Literal["program", "workers", "executors"] = "program"
    master: str | None = None
    ahead_hours: float | None = None
    broken: Broken | None = None
    name: str = ""
    location: str = ""
    endpoint: str | None = None
    killed_at: str | None = None

    def save(self, path: Path) -> None:
        """Write it to a file."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Errand:
        """Read it from a file."""
        value = json.loads(path.read_text())
        return cls(**value | {"checks": tuple(value["checks"])})


OWN = "own job"
"""What a user's own job is called."""


class Telling:
    """Writes lines; each is on its way to the disk before anything else happens, so a kill loses none."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(self, check: str, what: str, **more: Any) -> None:
        """Write one line."""
        line = {"at": time.time(), "check": check, "what": what} | more
        os.write(self._file, (json.dumps(line) + "\n").encode())


def told(path: Path) -> Iterator[dict[str, Any]]:
    """Read the lines back."""
    if path.exists():
        for line in path.read_text().splitlines():
            yield json.loads(line)
