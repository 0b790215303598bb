"""A checkpoint in memory, a clock that stands still, and the lease of another job: for the tests of leases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Self

from panekeeper.framework.engine.job.lease import Watch, acquire
from panekeeper.state.checkpoint.folder import RUNNING_FILE, JsonFiles
from panekeeper.state.checkpoint.lease import LeaseOwner

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

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.broken = False

    def exists(self, name: str = "") -> bool:
        return name in self.files

    def names(self, folder: str) -> list[str]:
        return sorted(name.removeprefix(f"{folder}/") for name in self.files if name.startswith(f"{folder}/"))

    def part(self, name: str) -> Self:
        raise NotImplementedError(name)

    def read(self, name: str) -> bytes:
        self._work()
        if name not in self.files:
            raise FileNotFoundError(name)
        return self.files[name].encode()

    def write(self, name: str, content: bytes, *, replace: bool = False) -> None:
        self._work()
        if name in self.files and not replace:
            raise FileExistsError(name)
        self.files[name] = content.decode()

    def swap(self, name: str, old: bytes, new: bytes) -> None:
        raise NotImplementedError(name)

    def remove(self, name: str) -> None:
        self._work()
        self.files.pop(name, None)

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
