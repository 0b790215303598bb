"""Whether the sources of a job read what those of their numbers have read before."""

from __future__ import annotations

import json
from pathlib import Path
from re import fullmatch
from typing import Any

import pytest

from panekeeper.framework.declarations.errors import CheckpointInUse, CorruptState, IncompatibleCheckpoint
from panekeeper.framework.engine.sources.inputs import InputsRecord, require_same_inputs, topics_left_out
from panekeeper.state.checkpoint.folder import INPUTS_FILE, LocalFolder
from panekeeper.state.checkpoint.job_record import Input, read_inputs, write_inputs


class Checkpoint(LocalFolder):
    """The checkpoint of a job whose first source has read files of `in/a`; no session is needed on local disks."""

    spark: Any = None

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "checkpoint")
        self.write_json("offsets/0", {})
        self.input = folder / "in" / "a"
        self.input.mkdir(parents=True)
        lines = []
        for name in ("1.json", "2 .json"):
            (self.input / name).touch()
            lines.append({"path": (self.input / name).as_uri(), "timestamp": 1, "batchId": 0})
        (folder / "checkpoint" / "sources" / "0").mkdir(parents=True)
        (folder / "checkpoint" / "sources" / "0" / "0").write_text("v1\n" + "\n".join(map(json.dumps, lines)))

    def url(self, place: str) -> str:
        """The URL of a place beside `in`."""
        return f"file:{self.input.parent.parent}/{place}"

    def files(self, place: str, **how: Any) -> Input:
        """Files of a path beside `in`."""
        return Input(kind="files", place=self.url(place), **how)


def topics(place: str, how: str = "") -> Input:
    """Topics of Kafka."""
    return Input(kind="kafka", place=place, how=how)


def check(checkpoint: Checkpoint, now: list[Input]) -> None:
    """Check what the sources of the job are to read now."""
    files: Any = checkpoint
    require_same_inputs(files, "readings", now)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """A checkpoint that has begun a batch."""
    return Checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("place", "how"),
    [
        ("in/a", {}),
        ("in", {}),
        ("in/a/2024", {}),
        ("in/*", {}),
        ("in/a/2024-*", {}),
        ("elsewhere", {"by_name": True}),
        ("in/a", {"how": "other options"}),
    ],
    ids=["the same", "above", "below", "glob", "glob below", "known by name", "options"],
)
def test_what_spark_takes_up_where_it_was_may_change(checkpoint: Checkpoint, place: str, how: dict[str, Any]) -> None:
    """A file keeps its name there, and topics are in the offsets."""
    write_inputs(checkpoint, [checkpoint.files("in/a"), topics("x")])
    check(checkpoint, [checkpoint.files(place, **how), topics("x,y")])


@pytest.mark.parametrize("place", ["in/b", "in/a2", "other/*", "in/b*", "in/[a]"])
def test_files_that_may_have_been_moved_are_refused(checkpoint: Checkpoint, place: str) -> None:
    """They would be read again. The error names both places, and what to do."""
    before, now = checkpoint.files("in/a"), checkpoint.files(place)
    write_inputs(checkpoint, [before])
    with pytest.raises(IncompatibleCheckpoint) as refused:
        check(checkpoint, [now])
    assert f"job 'readings' has read {before.place}, and is to read {now.place} now: files may have been moved" in str(
        refused.value
    )
    assert "fileNameOnly of the stream to true for good" in str(refused.value)


def test_files_that_were_read_by_name_are_read_by_name_for_good(checkpoint: Checkpoint) -> None:
    """Without the option Spark looks for the paths that they had before they were moved."""
    write_inputs(checkpoint, [checkpoint.files("in/a", by_name=True)])
    with pytest.raises(IncompatibleCheckpoint, match="were read with the option fileNameOnly"):
        check(checkpoint, [checkpoint.files("in/a")])


OTHER_ORDERS = [
    ([("files", "a", ""), ("files", "b", "")], [("files", "b", ""), ("files", "a", "")]),
    ([("kafka", "x", ""), ("kafka", "y", "")], [("kafka", "y", ""), ("kafka", "x", "")]),
    ([("kafka", "x", "one"), ("kafka", "x", "two")], [("kafka", "x", "two"), ("kafka", "x", "one")]),
    ([("files", "a", "csv"), ("files", "a", "json")], [("files", "a", "json"), ("files", "a", "csv")]),
    ([("files", "a", ""), ("kafka", "x", "")], [("kafka", "x", ""), ("files", "a", "")]),
    ([("files", "a", ""), ("files", "b", "")], [("files", "b", ""), ("files", "c", "")]),
    ([("files", "a", "1"), ("files", "a/b", "1")], [("files", "a/b", "2"), ("files", "a", "2")]),
    ([("files", "a/x-*", ""), ("files", "a/y-*", "")], [("files", "a/y-*.json", ""), ("files", "a/x-*.json", "")]),
    ([("kafka", "x", "one"), ("kafka", "x", "two")], [("kafka", "x", "new two"), ("kafka", "x", "new one")]),
    ([("files", "a", "")], [("files", "a", ""), ("files", "b", "")]),
    ([("files", "a", ""), ("files", "b", "")], [("files", "a", "")]),
]


@pytest.mark.parametrize(
    ("before", "now"),
    OTHER_ORDERS,
    ids=[
        "files",
        "topics",
        "clusters",
        "formats",
        "mixed",
        "moved up",
        "options",
        "globs",
        "same topic",
        "more",
        "fewer",
    ],
)
def test_other_sources_and_another_order_are_refused(
    checkpoint: Checkpoint, before: list[tuple[str, str, str]], now: list[tuple[str, str, str]]
) -> None:
    """Spark knows them by their place in the program; it also would be no help that files are known by name."""

    def inputs(given: list[tuple[str, str, str]]) -> list[Input]:
        return [Input(kind=kind, place=place, how=how, by_name=True) for kind, place, how in given]

    write_inputs(checkpoint, inputs(before))
    with pytest.raises(IncompatibleCheckpoint, match=r"streams of job 'readings' are others, or in another order .*"):
        check(checkpoint, inputs(now))
    check(checkpoint, inputs(before))


def test_what_is_to_be_read_is_recorded_before_the_very_first_batch(tmp_path: Path) -> None:
    """The process may be killed as soon as Spark has logged that batch. Later Spark may refuse the inputs first."""
    checkpoint = LocalFolder(tmp_path / "checkpoint")
    for place in ("in/a", "in/b"):
        InputsRecord(checkpoint, [topics(place)]).before_query()
        assert read_inputs(checkpoint) == [topics(place)]
    checkpoint.write_json("offsets/0", {})
    later = InputsRecord(checkpoint, [topics("c")])
    later.before_query()
    assert read_inputs(checkpoint) == [topics("in/b")]
    later.before_reading()
    assert read_inputs(checkpoint) == [topics("c")]


def test_a_first_start_that_was_paused_replaces_no_record_of_the_one_that_has_begun(tmp_path: Path) -> None:
    """Of streams in another order: the next start would be accepted with those that Spark has not read so."""

    class Paused(LocalFolder):
        def write_json(self, name: str, value: Any, *, replace: bool = False) -> None:
            InputsRecord(LocalFolder(self.path), [topics("b"), topics("a")]).before_query()
            super().write_json(name, value, replace=replace)

    paused = Paused(tmp_path / "checkpoint")
    with pytest.raises(CheckpointInUse, match="while this one was paused; start the job again"):
        InputsRecord(paused, [topics("a"), topics("b")]).before_query()
    assert read_inputs(paused) == [topics("b"), topics("a")]
    other = Paused(tmp_path / "other")
    InputsRecord(other, [topics("b"), topics("a")]).before_query()  # as where a store repeats a write


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_stream_that_was_used_twice_is_refused(checkpoint: Checkpoint, *, is_recorded: bool) -> None:
    """It is one source to Spark, so the control stream has a lower number than there are streams before it."""
    path = Path(checkpoint.root) / "sources" / "1"
    path.mkdir()
    line = {"path": f"file:{checkpoint.root}/pulse/000000000001.json", "timestamp": 1, "batchId": 0}
    (path / "0").write_text(f"v1\n{json.dumps(line)}")
    twice = [checkpoint.files("in/a"), checkpoint.files("in/a")]
    if is_recorded:
        write_inputs(checkpoint, twice)
    with pytest.raises(IncompatibleCheckpoint, match="streams of job 'readings' are others"):
        check(checkpoint, twice)


def test_before_the_first_batch_any_input_is_taken(checkpoint: Checkpoint) -> None:
    """Also after a reset, and on a checkpoint of a version that recorded none; a damaged record is reported."""
    other = [checkpoint.files("in/b")]
    check(checkpoint, other)
    checkpoint.write(INPUTS_FILE, b"[")
    with pytest.raises(CorruptState, match=r"inputs.json .* is damaged: it is not JSON; restore this checkpoint"):
        check(checkpoint, other)
    checkpoint.remove("offsets/0")
    check(checkpoint, other)


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({"subscribe": "a, b"}, ["c"]),
        ({"subscribe": "c,b,a,d"}, []),
        ({"assign": '{"a":[0],"c":[1]}'}, ["b"]),
        ({"subscribepattern": "[ab]"}, ["c"]),
    ],
)
def test_a_topic_that_was_read_is_one_that_the_options_name(options: dict[str, str], left: list[str]) -> None:
    """By a list, by the partitions of each, or by a pattern. A topic that is named anew was not read before."""

    def matches(pattern: str, topic: str) -> bool:
        return fullmatch(pattern, topic) is not None

    assert topics_left_out(options, ["c", "b", "a"], matches) == left
