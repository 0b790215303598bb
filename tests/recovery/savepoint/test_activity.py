"""A prune and a savepoint in the same location at the same time: neither takes from the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from panekeeper.recovery.errors import SavepointRefused
from panekeeper.recovery.savepoint.activity import MARKER_LIFETIME, active_markers, activity_marker
from panekeeper.recovery.savepoint.catalog import PruneResult, prune, verify
from tests.fake_checkpoint import FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class MeanwhileArchive(MemoryArchive):
    """Calls a function once, right before a file of a certain kind is stored or removed."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] = lambda: None
        self.before = ""

    def _now(self, deed: str) -> None:
        if deed.startswith(self.before):
            do, self.meanwhile = self.meanwhile, lambda: None
            do()

    def put_bytes(self, name: str, data: bytes) -> None:
        self._now(f"put {name}")
        super().put_bytes(name, data)

    def remove(self, name: str) -> None:
        self._now(f"remove {name}")
        super().remove(name)


def later(minutes: int) -> datetime:
    """A time after noon."""
    return NOON + timedelta(minutes=minutes)


@pytest.mark.parametrize("moment", ["put blobs/", "put savepoints/two"])
def test_a_prune_leaves_the_blobs_of_a_savepoint_that_is_being_made(job: FakeCheckpoint, moment: str) -> None:
    """Those it sends, and those it reuses, although the savepoint that brought them is removed meanwhile."""
    archive = MeanwhileArchive()
    savepoint(job.folder, "one", to=archive, made_at=NOON)
    savepoint(FakeCheckpoint(job.folder.with_name("b")).run(4).folder, "newer", to=archive, made_at=later(1))
    done: list[PruneResult] = []
    archive.before = moment
    archive.meanwhile = lambda: done.append(prune(archive, keep=1, now=later(2)))
    savepoint(job.run(2).folder, "two", to=archive, made_at=later(2))

    assert (done[0].removed, done[0].blobs, done[0].being_made) == (("one",), 0, 1)
    verify(archive, "two")
    assert prune(archive, keep=1, now=later(3)).being_made == 0
    verify(archive, "two")
    assert not archive.sizes("working/")


@pytest.mark.parametrize("moment", ["delete savepoints/", "delete blobs/"])
def test_no_savepoint_begins_while_a_prune_is_running(job: FakeCheckpoint, moment: str) -> None:
    """It might reuse a blob that is then removed."""
    archive = MeanwhileArchive()
    savepoint(job.folder, "one", to=archive, made_at=NOON)
    savepoint(job.run().folder, "two", to=archive, made_at=later(1))
    archive.files["blobs/" + "00" * 32] = b"left"

    def begin() -> None:
        with pytest.raises(SavepointRefused, match="runs since 2024-05-01T12:02:00Z"):
            savepoint(job.folder, "three", to=archive, made_at=later(2))

    archive.before, archive.meanwhile = moment, begin
    assert prune(archive, keep=1, now=later(2)).blobs > 0
    savepoint(job.folder, "three", to=archive, made_at=later(3))
    verify(archive, "three")


def test_the_marker_of_a_killed_activity_expires(job: FakeCheckpoint) -> None:
    """After two days it is removed, and no activity is refused any more."""
    archive = MemoryArchive()
    with activity_marker(archive, "savepoint", NOON), activity_marker(archive, "prune", NOON):
        left = {name: archive.files[name] for name in archive.sizes("working/")}
    archive.files |= left | {"working/prune-x.json": b"not ours"}
    with pytest.raises(SavepointRefused, match=r"if it was killed, remove working/prune-"):
        savepoint(job.folder, "one", to=archive, made_at=NOON + MARKER_LIFETIME)
    savepoint(job.folder, "one", to=archive, made_at=NOON + MARKER_LIFETIME + timedelta(seconds=1))
    assert prune(archive, keep=1, now=NOON + MARKER_LIFETIME + timedelta(seconds=2)).being_made == 0
    assert not archive.sizes("working/")


def test_the_marker_of_an_activity_that_was_killed_on_this_host_counts_no_more(job: FakeCheckpoint) -> None:
    """Its process is looked up. One of another host, or of the same number in another container, may still run."""
    archive = MemoryArchive()
    with activity_marker(archive, "prune", NOON):
        (file,) = archive.sizes("working/")
        marker = json.loads(archive.files[file])
    elsewhere = marker | {"process": marker["process"] | {"host": "elsewhere", "pid": 2**22 + 1}}
    archive.files[file] = json.dumps(elsewhere).encode()
    assert active_markers(archive, "prune", NOON) == {file: NOON}
    killed = marker | {"process": marker["process"] | {"pid": 2**22 + 1}}
    archive.files[file] = json.dumps(killed).encode()
    savepoint(job.folder, "one", to=archive, made_at=NOON)
    assert not archive.sizes("working/")


@pytest.mark.parametrize(
    "content",
    [
        b'{"since": "2024-05-01T12:00:00"}',
        b'{"since": "2999-05-01T12:00:00+00:00"}',
        b'{"since": "2024-05-01T12:00:00+00:00", "process": 1}',
        b'{"since": "2024-05-01T12:00:00+00:00", "process": {"host": "h", "pid": "1"}}',
        b"[" * 65_000,
        b'{"since": "2024-05-01T12:00:00+00:00"}' + b" " * 65_536,
    ],
    ids=["no time zone", "of the future", "no process", "a process of text", "nested", "large"],
)
def test_a_marker_that_panekeeper_never_writes_keeps_nobody_out(job: FakeCheckpoint, content: bytes) -> None:
    """Whoever can write to a location could refuse every savepoint there, and have any amount of bytes read."""
    archive = MemoryArchive()
    archive.files["working/prune-x.json"] = content
    savepoint(job.folder, "one", to=archive, made_at=NOON)
    assert not archive.sizes("working/")
