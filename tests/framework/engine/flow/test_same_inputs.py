"""Whether the sources of a job read what those of their numbers have read before."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.declarations.errors import CorruptState, IncompatibleCheckpoint
from framework.engine.flow.sources import require_same_inputs
from state.checkpoint.folder import LocalFolder
from state.checkpoint.layout import INPUTS_FILE
from state.checkpoint.run_record import Input, write_inputs


def files(place: str, *, by_name: bool = False) -> Input:
    """Files of this path."""
    return Input(kind="files", place=place, by_name=by_name)


def topics(place: str) -> Input:
    """Topics of Kafka."""
    return Input(kind="kafka", place=place)


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    """A checkpoint that has begun a batch."""
    made = LocalFolder(tmp_path)
    made.write_json("offsets/0", {})
    return made


@pytest.mark.parametrize(
    "now",
    [
        [files("file:/in/a"), topics("x")],
        [files("file:/in"), topics("x")],
        [files("file:/in/a/2024"), topics("x")],
        [files("file:/in/*"), topics("x")],
        [files("file:/elsewhere", by_name=True), topics("x")],
        [files("file:/in/a"), topics("x,y")],
        [files("file:/in/a")],
    ],
    ids=["the same", "above", "below", "glob", "known by name", "more topics", "fewer sources"],
)
def test_what_spark_takes_up_where_it_was_may_change(folder: LocalFolder, now: list[Input]) -> None:
    """A file keeps its name there; topics are in the offsets; another number of sources Spark refuses itself."""
    write_inputs(folder, [files("file:/in/a"), topics("x")])
    require_same_inputs(folder, "readings", now)


@pytest.mark.parametrize("now", ["file:/in/b", "file:/in/a2", "file:/other/*", "s3a://bucket/in/a"])
def test_files_that_may_have_been_moved_are_refused(folder: LocalFolder, now: str) -> None:
    """They would be read again. The error names both places, and what to do."""
    write_inputs(folder, [files("file:/in/a")])
    with pytest.raises(IncompatibleCheckpoint) as refused:
        require_same_inputs(folder, "readings", [files(now)])
    assert f"job 'readings' has read file:/in/a, and is to read {now} now" in str(refused.value)
    assert "fileNameOnly" in str(refused.value)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ([files("file:/in/a"), files("file:/in/b")], [files("file:/in/b"), files("file:/in/a")]),
        ([topics("x"), topics("y")], [topics("y"), topics("x")]),
        ([files("file:/a", by_name=True), topics("x")], [topics("x"), files("file:/a", by_name=True)]),
        ([files("file:/a"), files("file:/b")], [files("file:/b", by_name=True), files("file:/c", by_name=True)]),
    ],
    ids=["files", "topics", "mixed", "moved up"],
)
def test_sources_in_another_order_are_refused(folder: LocalFolder, before: list[Input], now: list[Input]) -> None:
    """Spark knows them by their place in the program."""
    write_inputs(folder, before)
    with pytest.raises(IncompatibleCheckpoint, match=r"streams of job 'readings' are in another order than before: .*"):
        require_same_inputs(folder, "readings", now)


def test_before_the_first_batch_any_input_is_taken(tmp_path: Path) -> None:
    """Also after a reset, and on a checkpoint of a version that recorded none; a damaged record is reported."""
    folder = LocalFolder(tmp_path)
    write_inputs(folder, [files("file:/in/a")])
    require_same_inputs(folder, "readings", [files("file:/in/b")])
    folder.remove(INPUTS_FILE)
    folder.write_json("offsets/0", {})
    require_same_inputs(folder, "readings", [files("file:/in/b")])
    folder.write_json(INPUTS_FILE, {"sources": [7]})
    with pytest.raises(CorruptState, match=r"inputs.json .* is damaged: it names no sources; `panekeeper repair"):
        require_same_inputs(folder, "readings", [files("file:/in/b")])
