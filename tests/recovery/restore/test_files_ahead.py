"""A savepoint that somebody else wrote plans no batch: what its last batch has not read would be read by a start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from panekeeper.recovery.errors import DamagedSavepoint
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.checkpoint_snapshot import files_ahead
from panekeeper.recovery.savepoint.create import Savepoint
from panekeeper.state.checkpoint.folder import claim_file, control_file
from panekeeper.state.errors import CorruptState
from tests.fake_checkpoint import FakeCheckpoint, savepoint
from tests.recovery.restore.test_foreign_savepoint import COPIES, add_file
from tests.recovery.storage.memory_archive import MemoryArchive

ENTRY = json.dumps({"path": "file:///home/me/.aws/credentials", "timestamp": 1, "batchId": 3})


@pytest.fixture
def made(job: FakeCheckpoint, archive: MemoryArchive) -> Savepoint:
    """Savepoint "one" of the job."""
    return savepoint(job.folder, "one", to=archive)


def offsets(job: FakeCheckpoint, *lines: str) -> str:
    """The offsets of the last batch with other lines for the sources."""
    return "\n".join([*job.contents()[f"offsets/{job.batch}"].split("\n")[:2], *lines])


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("use", COPIES)
@pytest.mark.parametrize(
    "line",
    ['{"logOffset":2}', '{"logOffset":2,"x":0}', '{"logOffset":2,"logOffset":3}', "2", " 2", '"2"', "-"],
)
@pytest.mark.parametrize("space", ["", " ", "\t"])
def test_a_file_that_the_last_batch_has_not_read_is_refused(
    job: FakeCheckpoint, archive: MemoryArchive, tmp_path: Path, use: str, line: str, space: str
) -> None:
    """Any file of this machine could be named, and its rows would be in the tables. Spark takes each of these lines."""
    add_file(archive, "sources/0/3", f"v1\n{space}{ENTRY}".encode())
    add_file(archive, f"offsets/{job.batch}", offsets(job, line, '{"logOffset":0}').encode())
    with pytest.raises(DamagedSavepoint, match=r"sources/0/\d .* never writes \(no batch of it has read"):
        COPIES[use](archive, tmp_path)


@pytest.mark.usefixtures("made")
def test_no_character_within_json_moves_the_offsets_of_one_source_to_another(
    job: FakeCheckpoint, archive: MemoryArchive
) -> None:
    """Python ends a line at more characters than Spark does, and text in JSON may hold them."""
    lines = offsets(job, '{"logOffset":9}', '{"logOffset":0}').replace("{", '{"x":"\u2028\u2028\x85",', 1)
    add_file(archive, "sources/1/3", f"v1\n{ENTRY}".encode())
    add_file(archive, f"offsets/{job.batch}", lines.encode())
    with pytest.raises(DamagedSavepoint, match="sources/1/3"):
        restore(archive, "one")


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("use", COPIES)
def test_a_command_that_no_batch_has_read_is_refused(archive: MemoryArchive, tmp_path: Path, use: str) -> None:
    """A flush would finish the job for good."""
    add_file(archive, control_file(9), b'{"kind": "flush", "us": 0, "number": 9}')
    with pytest.raises(DamagedSavepoint, match=control_file(9)):
        COPIES[use](archive, tmp_path)


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("number", [7, 999_999_999_999])
def test_a_claim_of_the_lease_is_refused(archive: MemoryArchive, tmp_path: Path, number: int) -> None:
    """With it no job could start, and nothing else could be restored in its place."""
    add_file(archive, claim_file(number), b'{"host": "elsewhere"}')
    with pytest.raises(DamagedSavepoint, match="not a file that belongs in a savepoint"):
        COPIES["restore"](archive, tmp_path)


def test_what_a_source_has_found_after_its_first_offset_is_not_saved(job: FakeCheckpoint) -> None:
    """A source that had nothing in a batch has read nothing; where a topic of Kafka begins is kept."""
    job.put(f"offsets/{job.batch}", offsets(job, "-", '{"logOffset":0}', "-"))
    job.put("sources/2/0", '\0v1\n{"topic":{"0":7}}')
    assert files_ahead(job.files, job.batch) == [f"sources/0/{number}" for number in range(job.batch + 1)]


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("content", [b"\xff\xfe", b"", b"v1\n{}"], ids=["no text", "nothing", "no settings"])
def test_offsets_that_spark_never_writes_are_refused_before_anything_is_changed(
    job: FakeCheckpoint, archive: MemoryArchive, content: bytes
) -> None:
    """What the batch has read is not known then."""
    before = job.contents()
    add_file(archive, f"offsets/{job.batch}", content)
    with pytest.raises(CorruptState, match=rf"offsets/{job.batch} in .* is damaged"):
        restore(archive, "one")
    assert job.contents() == before
