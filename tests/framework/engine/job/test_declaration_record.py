"""What a start records of a declaration, decided from the files of the checkpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from panekeeper import CheckpointInUse, TimeInterval, agg
from panekeeper.framework.engine.job.declaration_record import (
    first_record,
    record_upgrade,
    upgraded_record,
    without_columns_of_no_table,
    write_first_record,
)
from panekeeper.framework.engine.sink.table_at_version import TableAtVersion
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import JobRecord, last_batches, read_record, write_record
from panekeeper.state.codec import STATE_VERSION
from panekeeper.state.compatibility import Compatibility, as_recorded, compare_declarations
from panekeeper.state.errors import StateVersionError
from panekeeper.state.history import BEFORE, HISTORY, History, begun_again, in_force, upgraded


def declared(age: int = 60, **aggregates: str) -> dict[str, Any]:
    """The declaration of a job with aggregates of the column `n`, each by its kind."""
    made = {name: getattr(agg, kind)("n") for name, kind in (aggregates or {"n": "count"}).items()}
    declaration = {
        "window": TimeInterval(60, discard_age=age).declaration(),
        "column": {"n": "int64"},
        "aggregate": {name: one.declaration() for name, one in made.items()},
        "output": dict.fromkeys(made, "int64"),
    }
    return as_recorded(declaration, 4)


class Checkpoint:
    """The checkpoint of a job with this declaration, and these numbers in Spark's logs."""

    def __init__(self, path: Path, declaration: dict[str, Any], *, begun: int = 7, committed: int = 7) -> None:
        self.files: Any = LocalFolder(path)
        self.known = JobRecord(name="readings", id="0" * 12, declaration=declaration, group_ids=(0,), versions={})
        write_record(self.files, self.known)
        for batch in range(begun + 1):
            pinned = json.dumps({"batchWatermarkMs": batch * 1000, "conf": {}})
            self.files.write(f"offsets/{batch}", f"v1\n{pinned}\n{{}}".encode())
        for batch in range(committed + 1):
            self.files.write_json(f"commits/{batch}", {})

    def start(self, declaration: dict[str, Any]) -> JobRecord:
        """What a start with another declaration would record."""
        return upgraded_record(self.files, self.known, declaration, last_batches(self.files)[1])


class Fill(agg.UserAggregate):
    """Has a parameter that is no number, and so does not equal itself."""

    def __init__(self) -> None:
        self.missing = float("nan")

    def zero(self) -> float:
        return 0.0

    def add(self, state: float, value: float) -> float:
        return state + value

    def result(self, state: float) -> float:
        return state


def test_a_parameter_that_is_no_number_has_not_changed() -> None:
    """Else no second start of the job would be possible, and no flush either."""
    declaration = {"aggregate": {"n": agg.user(Fill(), "n", "double").declaration()}}
    recorded = json.loads(json.dumps(as_recorded(declaration, 4)))
    assert [one for one in compare_declarations(recorded, as_recorded(declaration, 4)) if one.differences] == []


@pytest.mark.parametrize(
    ("before", "now", "means"),
    [
        ({}, {"when_idle": "advance"}, Compatibility.NEEDS_FLUSH),
        ({}, {"watermark_by": "partition"}, Compatibility.NEEDS_FLUSH),
        ({"when_idle": "advance"}, {"when_idle": "advance", "watermark_by": "partition"}, Compatibility.NEEDS_FLUSH),
        (
            {"watermark_by": "partition"},
            {"when_idle": "advance", "watermark_by": "partition"},
            Compatibility.COMPATIBLE,
        ),
    ],
)
def test_a_watermark_that_something_else_kept_needs_a_flush(
    before: dict[str, str], now: dict[str, str], means: Compatibility
) -> None:
    """Spark's is not in the state, nor is that of each partition; the key groups' own may wait or go on."""
    for old, new in ((before, now), (now, before)):
        (change,) = (c for c in compare_declarations(declared() | old, declared() | new) if c.differences)
        assert change.compatibility is means


def test_a_declaration_that_did_not_change_records_nothing(tmp_path: Path) -> None:
    """In whatever order its aggregates are, and whatever batch is unfinished."""
    checkpoint = Checkpoint(tmp_path, declared(low="min", high="max"), begun=8)
    record = checkpoint.start(declared(high="max", low="min"))
    assert record is checkpoint.known
    record_upgrade(checkpoint.files, record)
    assert read_record(checkpoint.files) == checkpoint.known


@pytest.mark.parametrize("version", [0, STATE_VERSION + 1, None, "1"])
def test_a_record_of_a_state_version_that_is_not_known_is_refused(tmp_path: Path, version: Any) -> None:
    """It says which one, and what to do."""
    checkpoint = Checkpoint(tmp_path, declared())
    write_record(checkpoint.files, replace(checkpoint.known, state_version=version))
    with pytest.raises(StateVersionError, match=f"state version {version}, .* versions up to {STATE_VERSION}; run the"):
        read_record(checkpoint.files)


def test_a_batch_that_is_not_finished_is_run_by_the_changed_declaration(tmp_path: Path) -> None:
    """No table has anything of it, as it was not prepared. Nothing is written before the tables fit."""
    checkpoint = Checkpoint(tmp_path, declared(), begun=8)
    assert checkpoint.start(declared(age=90)).declaration["window.discard_age_us"] == 90_000_000
    assert read_record(checkpoint.files) == checkpoint.known


def test_what_was_closed_is_recorded_with_a_new_discard_age(tmp_path: Path) -> None:
    """By the watermark of the last committed batch, which every key group has acted on; recorded in one file."""
    checkpoint = Checkpoint(tmp_path, declared(), begun=8)
    record = checkpoint.start(declared(age=90))
    closed = {"watermark_us": 7_000_000, "end_us": -53_000_000, "age_us": 60_000_000}
    assert record.declaration[HISTORY]["closed"] == closed
    record_upgrade(checkpoint.files, record)
    assert read_record(checkpoint.files) == record


def test_a_removed_aggregate_leaves_its_column_and_its_number(tmp_path: Path) -> None:
    """One that comes back takes its column back, and gets a number of its own, as its partial results have a gap."""
    checkpoint = Checkpoint(tmp_path, declared(low="min", n="count"))
    checkpoint.known = checkpoint.start(declared(n="count"))
    history = checkpoint.known.declaration[HISTORY]
    assert (history["numbers"], history["retired"]) == ({"n": 1}, {"low": "int64"})
    checkpoint.files.write_json("commits/8", {})
    checkpoint.files.write("offsets/8", b'v1\n{"batchWatermarkMs": 8000, "conf": {}}\n{}')
    both = History.of(declared(low="min", n="count"))
    assert both.numbers == {"low": 0, "n": 1}
    back = upgraded(
        checkpoint.known.declaration,
        declared(low="min", n="count"),
        committed=8,
        watermark_us=8_000_000,
        last_panes={"": 4},
    )[HISTORY]
    assert (back["numbers"], back["retired"], back["begins"]) == ({"n": 1, "low": 2}, {}, {"low": 300_000_000})


def test_until_a_batch_is_committed_the_old_program_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    """A process was killed after it had recorded a new declaration; tables may have the new columns already."""
    before = declared(low="min", n="count")
    checkpoint = Checkpoint(tmp_path, before)
    changed = upgraded(before, declared(age=90, n="count", high="max"), committed=7, watermark_us=7, last_panes={"": 4})
    checkpoint.known = replace(checkpoint.known, declaration=changed)
    back = upgraded(changed, before, committed=7, watermark_us=7, last_panes={"": 4})
    assert History.of(back) == replace(History.of(before), retired={"high": "int64"})
    assert compare_declarations(in_force(changed, 7), before) == compare_declarations(before, before)
    assert in_force(changed, 8) is changed


def test_after_a_reset_tables_keep_the_columns_of_what_was_removed() -> None:
    """The log keeps its rows, and so its columns; of the state nothing is left."""
    removed = upgraded(declared(low="min", n="count"), declared(n="count"), committed=7, watermark_us=None)
    history = History.of(begun_again(removed, declared(n="count", high="max")))
    assert (history.retired, history.numbers) == ({"low": "int64"}, {"n": 0, "high": 1})
    assert begun_again(declared(n="count"), declared(low="min")) == declared(low="min")


def test_the_first_record_after_a_reset_keeps_the_epoch_under_any_name() -> None:
    """A start under another name may fail before its first batch; the tables refuse the epochs before."""
    rest: dict[str, Any] = {"declaration": declared(), "groups": (0,), "settings": {}}
    known = first_record(None, name="readings", **rest)
    assert (known.epoch, len(known.id)) == (0, 12)
    was_reset = replace(known, epoch=2)
    other = first_record(was_reset, name="other", **rest)
    again = first_record(other, name="readings", **rest)
    assert other.transaction("log") == f"other/log@{known.id}#2"
    assert again.transaction("log") == was_reset.transaction("log")


def test_the_first_record_of_a_folder_is_not_replaced_by_that_of_a_paused_start(tmp_path: Path) -> None:
    """Else the job had another id than its tables, and no start could go on with them."""
    files: Any = LocalFolder(tmp_path)
    rest: dict[str, Any] = {"name": "readings", "declaration": declared(), "groups": (0,), "settings": {}}
    paused, taken = first_record(None, **rest), first_record(None, **rest)
    write_first_record(files, taken, "1 key group", is_first=True)
    with pytest.raises(CheckpointInUse, match="while this one was paused; start the job again"):
        write_first_record(files, paused, "1 key group", is_first=True)
    write_first_record(files, taken, "1 key group", is_first=True)  # a store repeats it after a lost response
    assert read_record(files) == taken


def test_each_aggregate_is_compared_for_itself_whatever_its_name_is() -> None:
    """A name may have dots, and another one before them: one may be removed while the other gets another meaning."""
    both = declared(60, **{"delay": "sum", "delay.worst": "max", "delay.worst.kind": "count"})
    left = {"delay.worst": "min", "delay.worst.kind": "count"}
    changes = {one.item: one for one in compare_declarations(both, declared(60, **left))}
    assert changes["aggregate delay"].compatibility is Compatibility.COMPATIBLE
    assert changes["aggregate delay.worst"].compatibility is Compatibility.NEEDS_FLUSH
    assert not changes["aggregate delay.worst.kind"].differences
    assert not any(one.differences for one in compare_declarations(both, both))
    columns = {"window.kind": "sliding", "operator": "O", "column.at": "int64", "column.at.hour": "int64"}
    other = {**columns, "column.at.hour": "string"}
    del other["column.at"]
    kinds = {one.item: one.compatibility for one in compare_declarations(columns, other) if one.differences}
    assert kinds == {"column at.hour": Compatibility.NEEDS_FLUSH, "column at": Compatibility.COMPATIBLE}


def test_columns_that_no_table_has_got_are_not_kept(tmp_path: Path) -> None:
    """A declaration was only recorded: tables may be unable to get its columns, and then no start could follow it."""
    before = declared(low="min", n="count")
    recorded = upgraded(
        before, declared(high="max", low="min", n="count"), committed=7, watermark_us=7, last_panes={"": 4}
    )
    checkpoint = Checkpoint(tmp_path, recorded)
    back = replace(
        checkpoint.known, declaration=upgraded(recorded, before, committed=7, watermark_us=7, last_panes={"": 4})
    )
    assert History.of(back.declaration).retired == {"high": "int64"}
    for view, kept in ((["n"], {}), (["n", "high"], {"high": "int64"})):
        found = without_columns_of_no_table(
            back, {"log": columns("n", "low"), "view": columns(*view), "metrics": columns("n")}
        )
        assert History.of(found.declaration) == replace(History.of(before), retired=kept)
    assert without_columns_of_no_table(checkpoint.known, {}).declaration[BEFORE] == recorded[BEFORE]


def columns(*names: str) -> TableAtVersion:
    """A table with these columns."""
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    said = {"schemaString": json.dumps({"type": "struct", "fields": fields})}
    return TableAtVersion.of_actions("", 0, said, {}, lambda _: -1)
