"""A checkpoint in memory, a clock that stands still, and the lease of another job: for the tests of leases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Self

from panekeeper.framework.engine.job.lease import Watch, acquire
from panekeeper.state.checkpoint.folder import RUNNING_FILE, JsonFiles
from panekeeper.state.checkpoint.lease_owner import LeaseOwner

SECOND = 1_000_000


class Clock:
    """Returns the time it was set to, us."""

    def __init__(self, us: int = 0) -> None:
        self.us = us

    def __call__(self) -> int:
        return self.us


class Memory(JsonFiles):
    """A checkpoint in a dictionary; refuses everything once it is broken."""

    root = place = "memory"

    def __init__(self, folder: str = "", files: dict[str, str] | None = None) -> None:
        self.files: dict[str, str] = {} if files is None else files
        self.folder = folder
        self.broken = False

    def exists(self, name: str = "") -> bool:
        return self.folder + name in self.files

    def names(self, folder: str) -> list[str]:
        within = f"{self.folder}{folder}/"
        return sorted(name.removeprefix(within) for name in self.files if name.startswith(within))

    def part(self, name: str) -> Self:
        return type(self)(f"{self.folder}{name}/", self.files)

    def read(self, name: str) -> bytes:
        self._work()
        if not self.exists(name):
            raise FileNotFoundError(name)
        return self.files[self.folder + name].encode()

    def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
        self._work()
        if self.exists(name) and not replace:
            raise FileExistsError(name)
        self.files[self.folder + name] = content.decode()

    def swap(self, name: str, old: bytes, new: bytes) -> None:
        if self.read(name) != old:
            raise FileExistsError(name)
        self.write(name, new, replace=True)

    def remove(self, name: str) -> None:
        self._work()
        self.files.pop(self.folder + name, None)

    def _work(self) -> None:
        if self.broken:
            raise OSError("the disk is gone")


def watching(at_second: Callable[[int], None] = lambda _: None) -> Watch:
    """Return how a start watches another host without waiting; `at_second` is called with each second that it waits."""
    waited = [0]

    def sleep(seconds: float) -> None:
        waited[0] += int(seconds)
        at_second(waited[0])

    return Watch(clock=lambda: waited[0], sleep=sleep)


def left_by(folder: Memory, **given: Any) -> LeaseOwner:
    """Leave the lease of another job in the folder."""
    before = acquire(Memory(), "first", now=Clock(50))
    fields: dict[str, Any] = asdict(before._owner) | {"token": "theirs", "has_run": True} | given
    before.release("ended")
    owner = LeaseOwner(**fields)
    folder.write_json(RUNNING_FILE, asdict(owner), replace=True)
    return owner
