"""A file of Spark's logs that is an older copy, or one of another batch, reads well; a start would read rows twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import JobRecord
from panekeeper.state.checkpoint.layout import prepared_file
from panekeeper.state.errors import CorruptState
from panekeeper.state.prepared import PreparedBatch, has_other_offsets, require_begun
from panekeeper.state.spark_logs.startup import require_readable_start

RECORD = JobRecord(name="readings", id="7f", declaration={}, group_ids=(0,), versions={})


def entries(*numbers: int) -> str:
    """The content of a file source's log with a file of each of these entries."""
    return "\n".join(["v1", *(json.dumps({"path": f"f{one}", "timestamp": 0, "batchId": one}) for one in numbers)])


def offsets(batch: int, end: int) -> str:
    """The offsets of a batch that has read the entries up to one."""
    return f'v1\n{{"batchTimestampMs":{1000 + batch},"conf":{{}}}}\n{{"logOffset":{end}}}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> LocalFolder:
    """Three batches have read twelve entries of a file source."""
    folder = LocalFolder(tmp_path)
    files = {"metadata": '{"id":"7"}', "sources/0/9.compact": entries(*range(10))}
    files |= {f"sources/0/{one}": entries(one) for one in (10, 11)}
    files |= {f"offsets/{batch}": offsets(batch, 9 + batch) for batch in range(3)}
    files |= {f"commits/{batch}": "v1\n{}" for batch in range(3)}
    for name, content in files.items():
        folder.write(name, content.encode())
    require_readable_start(folder)
    return folder


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("sources/0/11", entries(10)),
        ("sources/0/10", entries(11)),
        ("sources/0/10", entries(10, 11)),
        ("sources/0/9.compact", entries(*range(9))),
        ("sources/0/9.compact", entries(*range(11))),
    ],
)
def test_an_entry_of_a_source_with_files_of_another_one_is_refused(
    checkpoint: LocalFolder, file: str, content: str
) -> None:
    """The files that it should name would be found, and read, once more."""
    checkpoint.write(file, content.encode(), replace=True)
    with pytest.raises(CorruptState, match=rf"^{file} in .* is damaged: it has the files of entry \d+"):
        require_readable_start(checkpoint)


def test_a_compact_entry_may_lack_files_that_were_read_long_ago(checkpoint: LocalFolder) -> None:
    """That of the control stream is pruned; and one file may be there twice."""
    checkpoint.write("sources/0/9.compact", entries(7, 9, 9).encode(), replace=True)
    require_readable_start(checkpoint)


def test_offsets_that_end_before_those_of_the_batch_before_are_refused(checkpoint: LocalFolder) -> None:
    """Spark would read nothing, and in the next batch what it has read before."""
    checkpoint.write("offsets/2", offsets(2, 9).encode(), replace=True)
    with pytest.raises(CorruptState, match=r"^offsets/2 in .* is damaged: it ends before those of the batch before"):
        require_readable_start(checkpoint)


@pytest.mark.parametrize(
    ("replaced", "is_refused"),
    [
        (lambda folder: folder.write("offsets/2", folder.read("offsets/1"), replace=True), True),
        (lambda folder: folder.write("offsets/2", offsets(3, 11).encode(), replace=True), True),
        (lambda folder: folder.write("offsets/2", folder.read("offsets/2"), replace=True), False),
    ],
)
def test_offsets_with_which_a_recorded_batch_was_not_begun_are_refused(
    checkpoint: LocalFolder, replaced: Callable[[LocalFolder], None], *, is_refused: bool
) -> None:
    """They are an older copy; or the batch was planned again while a process was paused that then recorded it."""
    prepare_by_hand(checkpoint, PreparedBatch(number=2, epoch=0, spark_commit="", job="7f", begun_ms=1002))
    replaced(checkpoint)
    assert has_other_offsets(checkpoint, RECORD, 2) is is_refused
    if is_refused:
        with pytest.raises(CorruptState, match=r"^offsets/2 in .* is damaged: it is not what the batch was begun with"):
            require_begun(checkpoint, RECORD, 2)
    else:
        require_begun(checkpoint, RECORD, 2)


def test_offsets_of_a_batch_that_an_earlier_version_recorded_are_not_compared(checkpoint: LocalFolder) -> None:
    """It did not record when the batch was begun. Nor are those of a damaged record, or what cannot be read."""
    prepare_by_hand(checkpoint, PreparedBatch(number=2, epoch=0, spark_commit="", job="7f"))
    assert not has_other_offsets(checkpoint, RECORD, 2)
    prepare_by_hand(checkpoint, PreparedBatch(number=1, epoch=0, spark_commit="", job="another", begun_ms=7))
    assert not has_other_offsets(checkpoint, RECORD, 1)
    prepare_by_hand(checkpoint, PreparedBatch(number=0, epoch=0, spark_commit="", job="7f", begun_ms=7))
    checkpoint.write("offsets/0", b"v1\n{}", replace=True)
    assert not has_other_offsets(checkpoint, RECORD, 0)


def prepare_by_hand(folder: LocalFolder, batch: PreparedBatch) -> None:
    """Write the record of a batch, which may be committed."""
    folder.write(prepared_file(batch.epoch, batch.number), batch.to_bytes())


def test_offsets_that_spark_does_not_read_may_have_another_checksum(checkpoint: LocalFolder) -> None:
    """Those before the last two: a power cut may take a part of their checksum long after. Of the others it is said."""

    class Altered(LocalFolder):
        lost = "offsets/0"

        def read(self, name: str) -> bytes:
            if name == self.lost:  # as where Hadoop reads it
                raise ValueError(f"{name} has another checksum than what was written")
            return super().read(name)

    folder = Altered(checkpoint.path)
    require_readable_start(folder)
    Altered.lost = "offsets/1"
    with pytest.raises(CorruptState, match="offsets/1"):
        require_readable_start(folder)
