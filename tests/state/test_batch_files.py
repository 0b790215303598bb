"""Which files of Spark's logs belong to a batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.spark_logs.batch_files import begun_with

OF_EACH_BATCH = {
    "commits/6": "v2\n{}",
    "offsets/7": 'v1\n{"conf":{}}\n{"logOffset":9}\n{"topic":{"0":7}}\n{"logOffset":2}\n-',
    "sources/0/9.compact": 'v1\n{"path":"a"}\n{"path":"b"}',
    "sources/2/2": 'v1\n{"path":"c"}',
}
OF_THE_FIRST = {"metadata": '{"id":"7"}', "sources/1/0": '\0v1\n{"topic":{"0":5}}'}
OTHERS = {"offsets/6": "v1", "commits/5": "v2", "sources/0/8": "v1", "state/0/0/7.delta": "x"}


@pytest.fixture
def checkpoint(tmp_path: Path) -> LocalFolder:
    """The logs of a query with two file sources and a Kafka source."""
    folder = LocalFolder(tmp_path)
    for name, content in (OF_EACH_BATCH | OF_THE_FIRST | OTHERS).items():
        folder.write(name, content.encode())
    return folder


@pytest.mark.parametrize("is_first", [False, True])
def test_a_batch_was_begun_with_its_offsets_and_what_they_name(checkpoint: LocalFolder, *, is_first: bool) -> None:
    """Where the sources came to, what they have found for it, and the commit before."""
    found = {name for name in begun_with(checkpoint, 7, is_first=is_first) if checkpoint.exists(name)}
    assert found == {*OF_EACH_BATCH, *(OF_THE_FIRST if is_first else ())}


def test_offsets_that_are_gone_name_nothing(checkpoint: LocalFolder) -> None:
    """A start says that they are gone."""
    checkpoint.remove("offsets/7")
    assert "metadata" in begun_with(checkpoint, 7, is_first=True)
