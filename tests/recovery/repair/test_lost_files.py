"""Files of Spark that are gone: a repair finds those that a start needs."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from panekeeper.recovery.jobs.lease import holding
from panekeeper.recovery.repair import repair as repair_module
from panekeeper.recovery.repair.repair import repair
from panekeeper.recovery.savepoint.checkpoint_reader import read_checkpoint
from panekeeper.state.checkpoint.layout import prepared_file
from panekeeper.state.prepared import PreparedBatch
from panekeeper.state.spark_logs.checksums import checksum_of
from tests.recovery.conftest import FakeCheckpoint
from tests.recovery.repair.test_repair import delta_log


def found(job: FakeCheckpoint) -> dict[str, str]:
    """File -> what is done with it."""
    return {one.file: one.action for one in repair(job.root, no_sink=True).findings}


def test_an_id_that_is_gone_is_replaced(stored_job: FakeCheckpoint) -> None:
    """Spark refuses a checkpoint without one."""
    stored_job.files.remove("metadata")
    assert found(stored_job) == {"metadata": "replace"}
    assert repair(stored_job.root).findings == ()


def test_the_checksum_of_an_id_that_is_gone_is_removed(job: FakeCheckpoint) -> None:
    """Hadoop would refuse the new one by it."""
    job.files.remove("metadata")
    job.put(".metadata.crc", "of the file that is gone")
    assert found(job) == {"metadata": "replace"}
    assert job.files.exists("metadata")
    assert not job.files.exists(".metadata.crc")


def test_offsets_that_are_gone_are_found(stored_job: FakeCheckpoint) -> None:
    """Those before the newest ones, which Spark compares; and those of a batch that is recorded."""
    stored_job.files.remove("offsets/1")
    assert found(stored_job) == {"offsets/1": "none"}
    stored_job.put("offsets/1", stored_job.files.read("offsets/2").decode())
    batch = PreparedBatch(number=3, epoch=0, spark_commit="", job="0123456789ab")
    stored_job.files.put_bytes(prepared_file(0, 3), batch.to_bytes())
    assert found(stored_job) == {"offsets/3": "none"}


def test_offsets_of_the_newest_committed_batch_that_are_gone_are_found(stored_job: FakeCheckpoint) -> None:
    """A start says that the logs do not agree."""
    stored_job.files.remove("offsets/2")
    assert found(stored_job) == {"offsets/2": "none"}


def test_offsets_before_a_batch_that_was_begun_are_found(stored_job: FakeCheckpoint) -> None:
    """What its control files were is not known then."""
    stored_job.begin()
    stored_job.files.remove("offsets/2")
    assert found(stored_job) == {"offsets/2": "none"}


def test_a_commit_that_is_gone_is_no_stray_of_the_batch_after_it(stored_job: FakeCheckpoint) -> None:
    """What the sources had found for that batch stays, so that the commit can be put back."""
    stored_job.begin()
    stored_job.files.remove("commits/2")
    assert found(stored_job) == {"offsets/3": "none"}


def test_what_describes_the_state_and_is_gone_is_found(stored_job: FakeCheckpoint) -> None:
    """A start failed with Spark's message, and nothing was found to repair."""
    schema = stored_job.files.names("state/0/_stateSchema/default")[0]
    named = {"stateStoreInfo": [{"storeName": "default", "stateSchemaFilePaths": [f"file:/x/{schema}"]}]}
    stored_job.put("state/0/_metadata/v2/0", f"v2\n{json.dumps(named)}")
    assert found(stored_job) == {}
    stored_job.files.remove(f"state/0/_stateSchema/default/{schema}")
    assert found(stored_job) == {f"state/0/_stateSchema/default/{schema}": "none"}
    stored_job.files.remove("state/0/_metadata/v2/0")
    assert found(stored_job) == {"state/0/_metadata/v2/0": "none"}


def test_offsets_that_are_an_older_copy_are_found(stored_job: FakeCheckpoint) -> None:
    """With those of a batch that was begun and not run, it is planned again; others need the right ones."""
    last = PreparedBatch(number=2, epoch=0, spark_commit="", job="0123456789ab", begun_ms=7)
    stored_job.files.put_bytes(prepared_file(0, 2), last.to_bytes())
    assert found(stored_job) == {"offsets/2": "none"}


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_batch_that_was_begun_with_an_entry_which_is_gone_is_planned_again_unless_it_is_recorded(
    job: FakeCheckpoint,
    tmp_path: Path,
    is_recorded: bool,  # noqa: FBT001
) -> None:
    """Its process was paused before it logged the offsets, and a start removed the entry, which nobody had read."""
    job.tables(metrics=f"{tmp_path}/metrics")
    delta_log(tmp_path / "metrics", *range(3), role="metrics")
    job.begin()
    job.files.remove("sources/0/3")
    if is_recorded:
        job.put("panekeeper/prepared/0-3", "")
    found = {one.file: one for one in repair(job.folder, no_sink=True).findings}
    if is_recorded:
        assert found["offsets/3"].action == "none"
        return
    assert found.keys() == {"offsets/3"}
    assert found["offsets/3"].action == "set aside"
    assert "it was begun with sources/0/3, which is gone" in found["offsets/3"].why
    assert repair(job.folder, no_sink=True).findings == ()
    assert read_checkpoint(job.files).unfinished is None


@pytest.mark.parametrize(
    ("file", "kept", "has_checksum"),
    [("sources/0/3", 0, False), ("sources/0/3", 5, False), ("sources/0/3", 32, True), ("sources/1/1", 3, False)],
)
def test_a_batch_that_was_begun_with_an_entry_which_is_cut_short_is_planned_again(
    job: FakeCheckpoint,
    tmp_path: Path,
    file: str,
    kept: int,
    has_checksum: bool,  # noqa: FBT001
) -> None:
    """A power cut takes from an entry and not from the offsets, which Spark has written a moment later.

    If whole lines are gone, the checksum shows it. Without one, their files are found again by a later batch.
    """
    job.tables(metrics=f"{tmp_path}/metrics")
    delta_log(tmp_path / "metrics", *range(3), role="metrics")
    job.write_control_file(2)
    job.begin()
    whole = job.files.read(file) + b'\n{"path":"file:///in/more.json"}'
    job.files.put_bytes(file, whole[:kept])
    if has_checksum:
        sums = b"crc\0" + (512).to_bytes(4) + zlib.crc32(whole).to_bytes(4)
        job.files.put_bytes(checksum_of(file), sums)
    assert found(job) == {"offsets/3": "set aside", file: "set aside"}
    assert found(job) == {}
    assert read_checkpoint(job.files).unfinished is None


def test_a_file_that_a_job_has_written_again_before_the_repair_began_stays(
    job: FakeCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repair was paused once it had looked, and holds the lease from then on only."""
    job.put("metadata", "")
    whole = '{"id":"0123"}'

    @contextmanager
    def written_meanwhile(*given: Any) -> Iterator[Any]:
        job.put("metadata", whole)
        with holding(*given) as lease:
            yield lease

    monkeypatch.setattr(repair_module, "holding", written_meanwhile)
    assert repair(job.root).findings == ()
    assert job.files.read("metadata").decode() == whole
