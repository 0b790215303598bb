"""What `play` refuses, and how it splits: a vector that is misread would prove nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.testing.steps import split_into_batches
from panekeeper.framework.testing.vector import parse
from panekeeper.testing import play

WINDOW = {"kind": "timeInterval", "intervalDuration": 10, "event_time": "ts"}
VECTOR: dict[str, Any] = {
    "window": WINDOW,
    "input": [{"value": {"ts": 1}}, {"watermark": 5}, {"value": {"ts": 6}}, {"watermark": 10}],
    "expect": [{"event": "insertion", "key": None, "tuples": [{"ts": 1}]}],
}


def broken(**changes: Any) -> dict[str, Any]:
    """The vector with some parts replaced."""
    return copy.deepcopy(VECTOR) | changes


def item(**fields: Any) -> dict[str, Any]:
    """The vector with one input item of these fields."""
    return broken(input=[fields])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown field of the vector": (broken(inputs=[]), "the vector has the unknown field inputs"),
    "no window": ({"input": []}, "needs the field 'window'"),
    "no input": ({"window": WINDOW}, "needs the field 'input'"),
    "input that is no list": (broken(input={}), "input is {}; it must be a list"),
    "an unknown kind": (broken(window={"kind": "session"}), "window.kind is 'session'"),
    "an unknown field of the window": (
        broken(window=WINDOW | {"discard_age": 3}),
        "window has the unknown field discard_age",
    ),
    "a window without event time": (broken(window={"kind": "timeInterval", "intervalDuration": 1}), "'event_time'"),
    "partition eviction": (broken(window=WINDOW | {"partition_eviction": {}}), "no partition eviction"),
    "partitioned that is no truth value": (broken(window=WINDOW | {"partitioned": "no"}), "true or false"),
    "a duration of nothing": (broken(window=WINDOW | {"intervalDuration": 0}), "must be greater than 0"),
    "a late rule of no kind": (broken(window=WINDOW | {"late": "never"}), "late is 'never'"),
    "an item of no kind": (item(at=3), r"input\[0\] has at"),
    "an item of two kinds": (item(value={"ts": 1}, watermark=3), "needs one of"),
    "an item that is no object": (broken(input=[3]), r"input\[0\] is 3"),
    "an unknown field of a row": (item(value={"ts": 1}, kye="a"), r"input\[0\] has the unknown field kye"),
    "an unknown field of a watermark": (item(watermark=1, at=0), "unknown field at"),
    "a row without event time": (item(value={"t": 1}), "has no 'ts'"),
    "a row whose event time is null": (item(value={"ts": None}), "has no 'ts'"),
    "a row whose event time is text": (item(value={"ts": "1"}), r"input\[0\]\.value\.ts is '1'"),
    "an event time finer than a microsecond": (item(value={"ts": 1e-7}), "whole microseconds"),
    "a watermark that is no time": (item(watermark=None), r"input\[0\]\.watermark is None"),
    "a mark of no kind": (item(punct="end"), "punct is 'end'"),
    "evicting a partition": (item(evict_partition="a"), "no partition eviction"),
    "a reset to nowhere": (item(reset="one"), "no checkpoint of that name"),
    "a reset that is none": (item(reset_to_initial=False), "must be true"),
    "an unknown field of an event": (broken(expect=[{"event": "insertion", "panes": []}]), "unknown field panes"),
}

SLIDING: dict[str, Any] = {"kind": "sliding", "eviction": {"policy": "count", "size": 2}}
BATCHED: dict[str, Any] = {"kind": "batched", "within": 2, "every": 1}
DELTA: dict[str, Any] = {"kind": "tumbling", "eviction": {"policy": "delta", "attr": "age", "size": 2}}
AGED = {"partition_eviction": {"policy": "partitionAge", "size": 5}}


def by_clock(window: dict[str, Any], *items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A vector of a window in arrival order, with these fields of the window and these items."""
    return {"window": window | fields, "input": list(items)}


REFUSED |= {
    "an unknown field of a sliding window": (by_clock(SLIDING, evict={}), "window has the unknown field evict"),
    "a trigger of a tumbling window": (by_clock(DELTA, trigger={}), "unknown field trigger"),
    "an unknown field of a policy": (
        by_clock(SLIDING, trigger={"policy": "count", "size": 1, "attr": "age"}),
        r"window\.trigger has the unknown field attr",
    ),
    "a policy of no kind": (by_clock(SLIDING, trigger={"policy": "often"}), r"window\.trigger\.policy is 'often'"),
    "a policy without a size": (
        by_clock(SLIDING, trigger={"policy": "time"}),
        r"window\.trigger needs the field 'size'",
    ),
    "a count of nothing": (by_clock(SLIDING, eviction={"policy": "count", "size": 0}), "greater than 0"),
    "punctuation in a sliding window": (
        by_clock(SLIDING, eviction={"policy": "punct"}),
        "cannot evict from a sliding window",
    ),
    "a delta of an attribute that is no name": (
        by_clock(SLIDING, eviction={"policy": "delta", "attr": 3, "size": 1}),
        r"window\.eviction\.attr is 3",
    ),
    "a batched window of no policy": (by_clock({"kind": "batched", "every": 2}), "needs within"),
    "a batched window created twice": (by_clock(BATCHED, created_at=1, ready_at=1), "created_at and ready_at"),
    "partition eviction without partitions": (by_clock(SLIDING, **AGED), "not partitioned.*no partition to evict"),
    "two partition evictions": (
        by_clock(SLIDING, partitioned=True, partition_eviction=[AGED["partition_eviction"]] * 2),
        "at most one",
    ),
    "a partition eviction of no kind": (
        by_clock(SLIDING, partitioned=True, partition_eviction={"policy": "age", "size": 1}),
        r"window\.partition_eviction\.policy is 'age'",
    ),
    "evicting a partition where there are none": (
        by_clock(SLIDING, {"at": 1, "evict_partition": "a"}),
        "not partitioned.*only from a partitioned window",
    ),
    "a row at no time": (by_clock(SLIDING, {"value": {}}), r"input\[0\] needs the field 'at'"),
    "a reset at no time": (by_clock(SLIDING, {"reset_to_initial": True}), r"input\[0\] needs the field 'at'"),
    "a clock that goes back": (
        by_clock(SLIDING, {"at": 2, "value": {}}, {"at": 1.5, "value": {}}),
        r"input\[1\] is at 1.5 s, but the clock already reads 2 s",
    ),
    "a row before the window is ready": (by_clock(SLIDING, {"at": 2, "value": {}}, ready_at=3), "already reads 3 s"),
    "a delta of a missing attribute": (
        by_clock(DELTA, {"at": 0, "value": {"a": 1}}),
        r"input\[0\]\.value\.age is None",
    ),
    "a duration of text": (
        by_clock(BATCHED, within="2 seconds"),
        r"window\.within is '2 seconds'; .* must be a number",
    ),
    "a size of text": (
        by_clock(SLIDING, trigger={"policy": "time", "size": "5m"}),
        r"window\.trigger\.size is '5m'; .* must be a number",
    ),
    "a time of text": (by_clock(SLIDING, {"at": "5m", "value": {}}), r"input\[0\]\.at is '5m'; it must be a number"),
    "a delta of text": (by_clock(DELTA, {"at": 0, "value": {"age": "1"}}), "needs a number"),
    "a lifecycle without handlers": (by_clock({"kind": "lifecycle"}), "handlers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_vector_that_may_be_misread_is_refused(case: str) -> None:
    """Every field that is unknown, missing or of the wrong kind is an error that names it."""
    vector, message = REFUSED[case]
    with pytest.raises(DeclarationError, match=message):
        play(vector)


@pytest.mark.parametrize(
    "arguments",
    [
        {"engine": "flink"},
        {"cut": "half"},
        {"cut": 1.5},
        {"cut": True},
        {"restart_after": "all"},
        {"restart_after": [4]},
        {"restart_after": [-1]},
    ],
)
def test_an_argument_that_means_nothing_is_refused(arguments: dict[str, Any]) -> None:
    """An engine, a split or a restart that does not exist is an error, not a default."""
    with pytest.raises(DeclarationError, match=next(iter(arguments))):
        play(VECTOR, **arguments)


def sizes(cut: Any, restart_after: Any, **changes: Any) -> list[tuple[int, bool]]:
    """How many items each micro-batch has, and whether the process stops after it."""
    batches = split_into_batches(parse(broken(**changes)).items, cut, restart_after)
    return [(len(batch.items), batch.restart) for batch in batches]


def test_splits_and_restarts_are_where_they_are_requested() -> None:
    """A restart ends its micro-batch; "whole" and "each" are what they say."""
    assert sizes("whole", "none") == [(4, False)]
    assert sizes("each", "none") == [(1, False)] * 4
    assert sizes("whole", [1]) == [(2, True), (2, False)]
    assert sizes("whole", "each") == [(1, True)] * 4


def test_a_seed_makes_the_same_random_split_again() -> None:
    """The same seed splits the same way, some seeds split differently, and no item is lost."""
    splits = [sizes(seed, "none") for seed in range(20)]
    assert splits == [sizes(seed, "none") for seed in range(20)]
    assert len({str(split) for split in splits}) > 3
    assert {sum(size for size, _ in split) for split in splits} == {4}


def test_a_checkpoint_and_a_reset_stand_alone() -> None:
    """Both act on durable state, so each is a batch without the items around it."""
    items = [
        {"value": {"ts": 1}},
        {"at": 1, "checkpoint": "c"},
        {"watermark": 3},
        {"watermark": 4},
        {"at": 2, "reset": "c"},
    ]
    assert sizes("whole", "none", input=items) == [(1, False), (1, False), (2, False), (1, False)]


def test_no_input_gives_no_events() -> None:
    """A vector without items is legal and does nothing."""
    assert play(broken(input=[])) == []
