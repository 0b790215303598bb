"""Hadoop's checksum beside a small file was cut short, or does not agree with it: a start cannot read that file."""

from __future__ import annotations

import pytest

from panekeeper.recovery.repair.repair import repair
from tests.recovery.conftest import FakeCheckpoint

CONTENT = '{"id":"' + "123456789" * 100 + '"}'
CHECKSUM = bytes.fromhex("63726300 00000200 5161c4e3 4fe2ff09")
"""As Hadoop writes it: its mark, that each sum is of 512 bytes, and a sum of each of the two parts."""


@pytest.fixture
def checked(job: FakeCheckpoint) -> FakeCheckpoint:
    """A checkpoint whose `metadata` has its checksum beside it."""
    job.put("metadata", CONTENT)
    job.files.put_bytes(".metadata.crc", CHECKSUM)
    return job


def found(job: FakeCheckpoint) -> dict[str, str]:
    """File -> what is done with it."""
    return {one.file: one.action for one in repair(job.root).findings}


def test_a_checksum_that_agrees_is_left_alone(checked: FakeCheckpoint) -> None:
    """Hadoop ignores what stands after the sums, too."""
    assert found(checked) == {}
    checked.files.put_bytes(".metadata.crc", CHECKSUM + b"more")
    assert found(checked) == {}


@pytest.mark.parametrize("kept", [8, 9, 12, 15])
def test_a_checksum_that_was_cut_short_is_set_aside(checked: FakeCheckpoint, kept: int) -> None:
    """The file itself is whole; without a checksum Hadoop reads it."""
    checked.files.put_bytes(".metadata.crc", CHECKSUM[:kept])
    assert found(checked) == {".metadata.crc": "set aside"}
    assert not checked.files.exists(".metadata.crc")
    assert checked.files.read("metadata").decode() == CONTENT
    assert found(checked) == {}


@pytest.mark.parametrize("kept", [0, 4, 7])
def test_a_checksum_that_hadoop_does_not_read_as_one_is_left_alone(checked: FakeCheckpoint, kept: int) -> None:
    """A start reads the file without it."""
    checked.files.put_bytes(".metadata.crc", CHECKSUM[:kept])
    assert found(checked) == {}


def test_a_file_that_was_altered_is_named(checked: FakeCheckpoint) -> None:
    """It may read well, but is not what was written."""
    checked.put("metadata", CONTENT.replace("9", "8", 1))
    assert found(checked) == {"metadata": "none"}
    assert found(checked) == {"metadata": "none"}


def test_a_file_that_was_cut_short_is_found_once(checked: FakeCheckpoint) -> None:
    """Its checksum does not agree with it either, and goes with it."""
    checked.put("metadata", CONTENT[:-1])
    assert found(checked) == {"metadata": "replace"}
    assert not checked.files.exists(".metadata.crc")
    assert found(checked) == {}
