"""What a change of a job means for its stored state, reported before anything is started."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from panekeeper import Batched, Count, Sliding, Time, TimeInterval, Tumbling
from panekeeper.cli.command import ExitCode
from panekeeper.cli.commands import COMMANDS
from panekeeper.cli.main import make_parser
from panekeeper.recovery.savepoint.checkpoint_snapshot import read_checkpoint
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.recovery.storage.blobs import SavedFile
from panekeeper.recovery.storage.delta_tables import SavedTable
from panekeeper.recovery.upgrade.check import Before, DeclaredJob, UpgradeReport, compare, saved_delays
from panekeeper.state.checkpoint.folder import FLUSHED_FILE
from panekeeper.state.checkpoint.job_record import PortDelay, installed_versions, write_ports
from panekeeper.state.codec import STATE_VERSION
from panekeeper.state.compatibility import Compatibility, as_recorded
from tests.fake_checkpoint import FakeCheckpoint, savepoint
from tests.recovery.storage.memory_archive import MemoryArchive

WINDOW = Tumbling(Time(30)).declaration()
DECLARED: dict[str, Any] = {
    "window": WINDOW,
    "partition_by": {"sensor": "string"},
    "event_time": None,
    "punctuation": None,
    "marks": None,
    "column": {"sensor": "string", "value": "int64"},
    "aggregate": {"n": {"kind": "count", "columns": []}, "top": {"kind": "max", "columns": ["value"]}},
    "output": {"n": "int64", "top": "int64"},
}
PINNED = {"spark.sql.shuffle.partitions": "4", "spark.sql.streaming.stateStore.compression.codec": "lz4"}
SAVED = Manifest(
    name="one",
    made_at=datetime(2024, 5, 1, tzinfo=UTC),
    checkpoint="/cp",
    job="readings",
    job_id="0123456789ab",
    epoch=0,
    state_version=STATE_VERSION,
    declaration=as_recorded(DECLARED, 8),
    batch=2,
    unfinished=None,
    settings=PINNED,
    versions=installed_versions(),
    tables={
        "log": SavedTable(path="/log", version=3, sha256=""),
        "view": SavedTable(path="/view", version=1, sha256=""),
    },
    files=(),
)
OFFERED = DeclaredJob(
    name="readings",
    declaration=as_recorded(DECLARED, 8),
    settings=PINNED,
    versions=installed_versions(),
    tables={"log": "/log", "view": "/view"},
    columns={"log": [], "view": []},
)


def compare_savepoint(saved: Manifest, offered: DeclaredJob, *delays: PortDelay) -> UpgradeReport:
    """What a savepoint whose ports had these delays means for the job."""
    return compare(Before.of_savepoint(saved, delays), offered)


def declared(key_groups: int = 8, **changed: Any) -> DeclaredJob:
    """The same job with another declaration."""
    return replace(OFFERED, declaration=as_recorded(DECLARED | changed, key_groups))


def not_compatible(upgrade: UpgradeReport) -> dict[str, str]:
    """Item -> verdict of what is not compatible."""
    return {
        one.item: one.compatibility.value for one in upgrade.items if one.compatibility is not Compatibility.COMPATIBLE
    }


def test_a_job_that_did_not_change_is_compatible() -> None:
    """Each part of it is listed, and none needs anything."""
    upgrade = compare_savepoint(SAVED, OFFERED)
    assert upgrade.verdict is Compatibility.COMPATIBLE
    assert not any(one.advice for one in upgrade.items)
    assert compare_savepoint(SAVED, replace(OFFERED, handlers={"Best": None})).verdict is Compatibility.COMPATIBLE
    items = [one.item for one in upgrade.items]
    assert {"state", "job", "end", "window", "aggregate n", "aggregate top", "key_groups", "table log"} <= {*items}
    assert len(items) == len(set(items))


ADDED = {**DECLARED["aggregate"], "low": {"kind": "min", "columns": ["value"]}}
FEWER = {"n": DECLARED["aggregate"]["n"]}
PANES: dict[str, Any] = {"window": TimeInterval(60, discard_age=60).declaration(), "event_time": "at"}
BUFFER: dict[str, Any] = {"window": Sliding(evict=Count(5)).declaration()}


@pytest.mark.parametrize(
    ("offered", "items"),
    [
        (declared(window=Tumbling(Time(60)).declaration()), ["window"]),
        (declared(window=Tumbling(Count(30)).declaration()), ["window"]),
        (declared(window=Batched(within=30, every=30).declaration()), ["window"]),
        (declared(window=TimeInterval(30).declaration(), event_time="at"), ["window", "event_time"]),
        (declared(partition_by={"sensor": "string", "room": "string"}), ["partition_by"]),
        (declared(partition_by={"sensor": "int64"}), ["partition_by"]),
        (declared(window=Tumbling(Count(30), passes_marks=True).declaration()), ["window"]),
        (declared(punctuation="value = 0"), ["punctuation"]),
        (declared(arrival_time="at"), ["arrival_time"]),
        (declared(aggregate=ADDED, output=DECLARED["output"] | {"low": "int64"}), ["aggregate low", "output low"]),
        (declared(aggregate=DECLARED["aggregate"] | {"top": {"kind": "sum", "columns": ["value"]}}), ["aggregate top"]),
        (declared(column={"sensor": "string", "value": "double"}), ["column value"]),
        (declared(handlers=["Best"]), ["handlers"]),
        (declared(operator="Smooth"), ["operator"]),
        (declared(key_groups=16), ["key_groups"]),
        (declared(port_1={"window": WINDOW, "column": {"room": "string"}}), ["port_1 window", "port_1 column room"]),
        (declared(something={"new": 1}), ["something"]),
    ],
)
def test_a_change_that_the_stored_state_is_not_compatible_with_needs_a_flush(
    offered: DeclaredJob, items: list[str]
) -> None:
    """The parts that changed are named, and no others; each says why and what to do."""
    upgrade = compare_savepoint(SAVED, offered)
    assert not_compatible(upgrade) == dict.fromkeys(items, "needs a flush")
    for one in upgrade.items:
        if one.item in items:
            assert one.why != "unchanged"
            assert one.differences
            assert "flush the job as it was declared" in one.advice


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ({}, {"aggregate": FEWER, "output": {"n": "int64"}}, {"aggregate top": "is null from the next batch on"}),
        (PANES, PANES | {"window": TimeInterval(60, discard_age=90).declaration()}, {"window": "closed stay closed"}),
        (
            PANES,
            PANES | {"aggregate": ADDED, "output": DECLARED["output"] | {"low": "int64"}},
            {"aggregate low": "begins with the first pane that has no rows yet"},
        ),
        (
            PANES,
            PANES | {"aggregate": FEWER, "output": {"n": "int64"}, "column": {"sensor": "string"}},
            {"aggregate top": "is null", "column value": "stores no rows"},
        ),
        (
            BUFFER,
            BUFFER | {"aggregate": ADDED, "output": DECLARED["output"] | {"low": "int64"}},
            {"aggregate low": "from the next firing on"},
        ),
        (
            BUFFER,
            BUFFER | {"aggregate": FEWER, "output": {"n": "int64"}, "column": {"sensor": "string"}},
            {"column value": "until they leave"},
        ),
    ],
)
def test_a_change_that_keeps_the_state_says_from_when_the_new_one_holds(
    before: dict[str, Any], after: dict[str, Any], kept: dict[str, str]
) -> None:
    """Another discard age; an aggregate more or less, and the columns that only it reads. And so does the way back."""
    old, new = (as_recorded(DECLARED | changed, 8) for changed in (before, after))
    there = compare_savepoint(replace(SAVED, declaration=old), replace(OFFERED, declaration=new))
    assert not_compatible(there) == {}
    items = {one.item: one for one in there.items}
    for item, words in kept.items():
        assert words in items[item].why
        assert items[item].differences


def test_a_batch_that_was_unfinished_is_named_if_the_declaration_changed() -> None:
    """It is not in the savepoint, so the restored job runs it with the new one."""
    saved = replace(SAVED, unfinished=3)
    assert not [one for one in compare_savepoint(saved, OFFERED).items if one.item == "batch 3"]
    upgrade = compare_savepoint(saved, declared(aggregate=FEWER, output={"n": "int64"}))
    assert upgrade.verdict is Compatibility.COMPATIBLE
    (item,) = [one for one in upgrade.items if one.item == "batch 3"]
    assert (item.why, item.advice) == (
        "it was not finished, and is not in the savepoint: the declaration changes before it",
        "",
    )


def test_partition_columns_in_another_order_are_other_keys() -> None:
    """Keys are spread over key groups by a hash of the columns in their order: their state would not be found."""
    before, after = ({"partition_by": dict.fromkeys(names, "string")} for names in (("a", "b"), ("b", "a")))
    old, new = (as_recorded(DECLARED | columns, 8) for columns in (before, after))
    upgrade = compare_savepoint(replace(SAVED, declaration=old), replace(OFFERED, declaration=new))
    assert not_compatible(upgrade) == {"partition_by": "needs a flush"}
    (difference,) = next(one.differences for one in upgrade.items if one.item == "partition_by")
    assert str(difference) == "partition_by: ['a', 'b'] in the checkpoint, ['b', 'a'] now"


@pytest.mark.parametrize(
    ("saved", "offered", "item", "advice"),
    [
        (SAVED, replace(OFFERED, name="others"), "job", "put the name back"),
        (replace(SAVED, state_version=STATE_VERSION + 1), OFFERED, "state", "run the version that wrote it"),
        (
            replace(SAVED, files=(SavedFile(path=FLUSHED_FILE, size=1, sha256="0" * 64),)),
            OFFERED,
            "end",
            "start with a new checkpoint folder",
        ),
        (
            SAVED,
            replace(OFFERED, handlers={"Best": "the stored state of Best has version 1; add 1 to its `reads`"}),
            "state of handler Best",
            "add 1 to its `reads`",
        ),
        (
            SAVED,
            replace(OFFERED, columns={"log": ["top: string in the table, bigint in the results"]}),
            "table log",
            "choose another folder",
        ),
    ],
)
def test_a_resume_as_another_job_is_impossible(saved: Manifest, offered: DeclaredJob, item: str, advice: str) -> None:
    """Another name, state of another version, a job that was flushed, a table with other columns."""
    upgrade = compare_savepoint(saved, offered)
    assert not_compatible(upgrade) == {item: "impossible"}
    assert upgrade.verdict is Compatibility.IMPOSSIBLE
    assert advice in next(one.advice for one in upgrade.items if one.item == item)


def test_a_table_that_does_not_fit_other_results_needs_the_same_flush() -> None:
    """It is no second problem beside the results that changed."""
    aggregates, output = ADDED, DECLARED["output"] | {"low": "int64"}
    columns = {"log": ["low: absent in the table, bigint in the results"]}
    upgrade = compare_savepoint(SAVED, replace(declared(aggregate=aggregates, output=output), columns=columns))
    assert upgrade.verdict is Compatibility.NEEDS_FLUSH
    assert not_compatible(upgrade)["table log"] == "needs a flush"


def test_harmless_changes_are_listed_as_compatible() -> None:
    """Another catch-up, other settings and packages, other tables."""
    assert Tumbling(Time(30), catch_up="skip").declaration() == WINDOW
    offered = replace(
        OFFERED,
        settings=PINNED | {"spark.sql.shuffle.partitions": "16"},
        versions=installed_versions() | {"pyspark": "4.2.7"},
        tables={"log": "/elsewhere", "view": None, "metrics": "/metrics"},
        columns={},
    )
    upgrade = compare_savepoint(SAVED, offered)
    assert upgrade.verdict is Compatibility.COMPATIBLE
    items = {one.item: one for one in upgrade.items}
    assert "panekeeper rescale" in items["setting spark.sql.shuffle.partitions"].advice
    assert "on a clone first" in items["package pyspark"].advice
    assert items["table log"].why == "new rows go to /elsewhere; the rows in /log stay there"
    assert items["table view"].why == "no longer written: it stays as it is"
    assert items["table metrics"].why == "a new table, /metrics: its first rows are those of the next batch"


def test_the_command_prints_all_and_succeeds_only_if_the_job_can_resume() -> None:
    """A line for each part, and below it what differs and what to do."""
    good, bad = compare_savepoint(SAVED, OFFERED), compare_savepoint(SAVED, declared(key_groups=16))
    assert COMMANDS["plan"].exit_code(Namespace(), good) == ExitCode.DONE
    assert COMMANDS["plan"].exit_code(Namespace(), bad) == ExitCode.FAILED
    first, item, difference, advice, *same = str(bad).splitlines()
    assert first == "savepoint one of job readings and readings: needs a flush"
    assert item.startswith("  key_groups: needs a flush (")
    assert difference == "      key_groups: 8 in the checkpoint, 16 now"
    assert advice.startswith("      put the declaration back; or flush the job")
    assert len(same) == 1
    assert same[0].startswith("  unchanged: state, job, end, window, ")


HOUR, MINUTE = 3_600_000_000, 60_000_000


@pytest.mark.parametrize(
    ("was", "new", "differences", "words"),
    [
        (
            PortDelay(watermark_us=10 * MINUTE),
            PortDelay(watermark_us=HOUR),
            ["watermark: 10m in the checkpoint, 1h now"],
            (
                "the watermark stands until event time is 50m further, so panes fire and close that much later, and "
                "rows up to 1h behind are in time"
            ),
        ),
        (
            PortDelay(watermark_us=90 * MINUTE),
            PortDelay(watermark_us=0),
            ["watermark: 1h 30m in the checkpoint, 0s now"],
            (
                "the watermark is 1h 30m further, so the panes that it passes fire, or close, at once, and rows more "
                "than 0s behind are late"
            ),
        ),
        (
            PortDelay(watermark_us=MINUTE),
            PortDelay(watermark_us=MINUTE, idle_after_us=MINUTE),
            ["idle_after: absent in the checkpoint, 1m now"],
            "after that long without a row the watermark goes on without a source",
        ),
        (PortDelay(watermark_us=MINUTE), PortDelay(watermark_us=MINUTE), [], "unchanged"),
    ],
)
def test_another_watermark_is_told_first_with_what_it_does_to_panes(
    was: PortDelay, new: PortDelay, differences: list[str], words: str
) -> None:
    """No declaration has it, as a start takes any; nothing stands against it."""
    upgrade = compare_savepoint(SAVED, replace(OFFERED, delays=[new]), was)
    (item,) = [one for one in upgrade.items if one.item == "watermark"]
    assert ([*map(str, item.differences)], item.advice) == (differences, "")
    assert words in item.why
    assert upgrade.verdict is Compatibility.COMPATIBLE
    if differences:
        assert upgrade.items[0] == item
    of_two = compare_savepoint(SAVED, replace(OFFERED, delays=[None, new]), was, was)
    assert [one.item for one in of_two.items if "watermark" in one.item] == ["port_1 watermark"]
    assert "watermark" not in {one.item for one in compare_savepoint(SAVED, replace(OFFERED, delays=[new])).items}


def test_a_setting_that_the_session_was_not_given_is_no_change() -> None:
    """The checkpoint pins many that nobody sets."""
    settings = {"spark.sql.shuffle.partitions": None, "spark.sql.streaming.stateStore.compression.codec": "zstd"}
    upgrade = compare_savepoint(SAVED, replace(OFFERED, settings=settings))
    listed = [one.item for one in upgrade.items if one.item.startswith("setting")]
    assert listed == ["setting spark.sql.streaming.stateStore.compression.codec"]
    assert upgrade.items[0].item == listed[0]


def test_what_the_ports_of_a_savepoint_had_is_read_from_it(tmp_path: Path) -> None:
    """Nothing of a savepoint that has not recorded it."""
    job, archive = FakeCheckpoint(tmp_path / "c").run(2), MemoryArchive()
    assert saved_delays(archive, savepoint(job.root, "before", to=archive).manifest) == []
    ports = [PortDelay(watermark_us=5, idle_after_us=7), PortDelay(watermark_us=0)]
    write_ports(job.files, ports)
    assert saved_delays(archive, savepoint(job.root, "one", to=archive).manifest) == ports


def test_a_checkpoint_is_compared_as_of_its_last_batch(tmp_path: Path) -> None:
    """With what it has recorded; a batch that was begun is the next one."""
    job = FakeCheckpoint(tmp_path / "c").run(2)
    write_ports(job.files, [PortDelay(watermark_us=5)])
    job.tables(log="/log")
    job.begin()
    before = Before.of_checkpoint(read_checkpoint(job.files), job.root)
    assert (before.job, before.batch, before.unfinished, before.flushed) == ("readings", 1, 2, False)
    assert (before.tables, before.delays) == ({"log": "/log"}, [PortDelay(watermark_us=5)])
    offered = replace(OFFERED, declaration={"window.kind": "timeInterval"}, tables={"log": "/log"}, settings={})
    upgrade = compare(before, replace(offered, delays=[PortDelay(watermark_us=6)]))
    assert upgrade.verdict is Compatibility.COMPATIBLE
    lines = str(upgrade).splitlines()
    assert lines[0] == f"checkpoint {job.root} of job readings and readings: compatible"
    assert "      watermark: 5us in the checkpoint, 6us now" in lines
    job.put(FLUSHED_FILE, "{}")
    assert Before.of_checkpoint(read_checkpoint(job.files), job.root).flushed


def test_the_command_takes_a_savepoint_by_its_name_or_a_checkpoint() -> None:
    """The job file is the last of two or three."""
    parsed = make_parser().parse_args(["plan", "out/checkpoint", "job.py"])
    assert (parsed.location, parsed.name, parsed.job) == ("out/checkpoint", None, "job.py")
    parsed = make_parser().parse_args(["plan", "out/savepoints", "one", "job.py"])
    assert (parsed.location, parsed.name, parsed.job) == ("out/savepoints", "one", "job.py")
