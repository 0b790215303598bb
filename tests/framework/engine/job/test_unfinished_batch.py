"""Whether a start may run an unfinished batch again, by its code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from framework.declarations.errors import CorruptState, IncompatibleCheckpoint
from framework.engine.job.unfinished_batch import ReadingOrder, begin_with_code, files_of_batch
from state.checkpoint.folder import LocalFolder
from state.checkpoint.job_record import JobRecord, write_tables
from state.checkpoint.layout import CODE_FILE, ORDER_FILE
from state.checkpoint.run_record import read_code, read_order

OLD = {"panekeeper": "0.1.0", "reject": [], "operator Spread": "code:1", "operator Spread.limit": 5}
NEW = OLD | {"reject": [["odd", "value = 1"]], "operator Spread": "code:2"}
RECORD = JobRecord(name="readings", id="0123456789ab", declaration={}, group_ids=(0,), epoch=2, versions={})


class Start:
    """Starts on one checkpoint, with these numbers in Spark's logs and transactions in the tables."""

    def __init__(self, path: Path, *, begun: int | None = 7, committed: int = 6) -> None:
        self.folder = LocalFolder(path)
        self.tables: dict[str, str | None] = {"log": "/log", "view": "/view", "quarantine": None}
        self.transactions = {"/log": 6, "/view": 6}
        for log, last in (("offsets", begun), ("commits", committed)):
            if last is not None:
                self.folder.write_json(f"{log}/{last}", {})

    def __call__(self, code: dict[str, Any], *, has_sink: bool = False, accepted: int | None = None) -> None:
        begin_with_code(
            self.folder,
            RECORD,
            code,
            self.tables,
            last_transaction=self.last_transaction,
            has_sink=has_sink,
            accepted=accepted,
        )

    def last_transaction(self, path: str, app: str) -> int:
        """The last batch that a table has of this epoch."""
        return self.transactions[path] if app.endswith("ab#2") else -1


def test_a_batch_that_a_table_has_takes_no_other_code(tmp_path: Path) -> None:
    """The error names the table, each change, and both ways out; what is recorded stays the old code."""
    start = Start(tmp_path)
    start(OLD)
    start.transactions["/log"] = 7
    start(OLD)
    with pytest.raises(IncompatibleCheckpoint) as refused:
        start(NEW)
    assert "batch 7 of job 'readings'" in str(refused.value)
    assert "the log has it already" in str(refused.value)
    assert "\n  reject: [] in the checkpoint, [['odd', 'value = 1']] now\n  operator Spread: changed\n" in str(
        refused.value
    )
    assert 'trigger="available_now"' in str(refused.value)
    assert "accept_changed_code=7" in str(refused.value)
    assert read_code(start.folder) == OLD


def test_one_may_insist_for_one_batch_only(tmp_path: Path) -> None:
    """The number of another batch changes nothing; afterwards the new code is what counts."""
    start = Start(tmp_path)
    start(OLD)
    start.transactions["/view"] = 7
    for other in (6, 8, 0):
        with pytest.raises(IncompatibleCheckpoint, match="the view has it"):
            start(NEW, accepted=other)
    start(NEW, accepted=7)
    with pytest.raises(IncompatibleCheckpoint):
        start(OLD)


def test_other_code_runs_where_no_table_has_the_batch(tmp_path: Path) -> None:
    """A function that raises can be corrected; but it is not known which batches a sink of the user's own has."""
    start = Start(tmp_path)
    start(OLD)
    with pytest.raises(IncompatibleCheckpoint, match="perhaps your own sink has it"):
        start(NEW, has_sink=True)
    start(NEW)
    assert read_code(start.folder) == NEW


@pytest.mark.parametrize(("begun", "committed"), [(None, None), (6, 6)])
def test_other_code_runs_after_a_committed_batch(tmp_path: Path, begun: int | None, committed: Any) -> None:
    """Or on a new checkpoint."""
    start = Start(tmp_path, begun=begun, committed=committed)
    start(OLD)
    start.transactions["/log"] = 7
    start(NEW, has_sink=True)
    assert read_code(start.folder) == NEW | {"has a sink of its own": True}


def test_a_checkpoint_without_a_record_of_the_code_takes_any(tmp_path: Path) -> None:
    """As one of an earlier version; a damaged record is an error with the command that repairs it."""
    start = Start(tmp_path)
    start.transactions["/log"] = 7
    start(NEW)
    (tmp_path / CODE_FILE).write_text("{")
    with pytest.raises(CorruptState, match="panekeeper repair"):
        start(NEW)


def test_a_batch_that_a_table_has_goes_to_no_other_table(tmp_path: Path) -> None:
    """It would be in both. Another spelling is the same table, and one that has not got the batch may be left out."""
    start = Start(tmp_path)
    write_tables(start.folder, start.tables)
    start(OLD)
    start.transactions |= {"/log": 7, "/new": -1}
    start.tables["log"] = "file:/log"
    start.transactions["file:/log"] = 7
    start(OLD)
    start.tables["log"] = "/new"
    for code in (OLD, NEW):
        with pytest.raises(IncompatibleCheckpoint, match="the log /log has it already, and this start"):
            start(code)
    start(OLD, accepted=7)
    start.tables |= {"log": "/log", "view": None}
    start(OLD)
    start.folder.write_json("commits/7", {})
    start.tables["log"] = "/new"
    start(NEW)


def test_a_table_that_has_a_batch_is_not_left_out_before_it_is_finished(tmp_path: Path) -> None:
    """By other code it could have a row that is in the quarantine then, and skip the one that comes with its number."""
    start = Start(tmp_path)
    write_tables(start.folder, start.tables)
    start(OLD)
    start.transactions["/view"] = 7
    start.tables["view"] = None
    for code in (OLD, NEW):
        with pytest.raises(IncompatibleCheckpoint, match=r"the view /view has it already, and this start .* or none"):
            start(code)
    start(NEW, accepted=7)


def test_a_sink_that_is_left_out_may_have_the_batch(tmp_path: Path) -> None:
    """As long as it is declared with the same code, it gets the batch again; a sink that is new has none."""
    start = Start(tmp_path)
    start(OLD, has_sink=True)
    start(OLD, has_sink=True)
    with pytest.raises(IncompatibleCheckpoint, match="perhaps your own sink has it already"):
        start(NEW)
    start(OLD)
    start(OLD, has_sink=True)
    start.folder.write_json("commits/7", {})
    start(NEW)


TASKS = "spark.sql.files.minPartitionNum"


class Session:
    """As much of a Spark session as says how files are split: its settings, and its cores."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.settings = {"spark.sql.files.maxPartitionBytes": "128m", "spark.sql.files.openCostInBytes": "4m"}
        self.conf = self._jsparkSession = self

    def get(self, name: str, default: str | None) -> str | None:
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.settings[name] = value

    def unset(self, name: str) -> None:
        self.settings.pop(name, None)

    def leafNodeDefaultParallelism(self) -> int:  # noqa: N802 -- Spark's name
        return self.cores


NO_QUERY: Any = None


def order(folder: LocalFolder, spark: Any) -> ReadingOrder:
    """The order of a job that reads files."""
    return ReadingOrder(folder, spark, from_files=True, from_kafka=False)


def test_the_files_of_an_unfinished_batch_are_split_as_they_were_and_those_of_later_ones_as_now(tmp_path: Path) -> None:
    """By the number of cores of then, wherever the batch is run again, and however often."""
    folder = Start(tmp_path, begun=7, committed=7).folder
    before: Any = Session(cores=2)
    first = order(folder, before)
    with first.as_recorded():
        assert TASKS not in before.settings
    folder.write_json("offsets/8", {})
    first.record(8, NO_QUERY)
    now: Any = Session(cores=64)
    now.set("spark.sql.files.maxPartitionBytes", "1g")
    for _ in range(2):
        again = order(folder, now)
        with again.as_recorded():
            assert now.settings == before.settings | {TASKS: "2"}
            again.record(8, NO_QUERY)
        assert now.settings == before.settings | {"spark.sql.files.maxPartitionBytes": "1g"}
        again.record(8, NO_QUERY)
    folder.write_json("commits/8", {})
    last = order(folder, now)
    with last.as_recorded():
        assert TASKS not in now.settings  # there is no unfinished batch
    last.record(9, NO_QUERY)
    assert (read_order(folder) or {})["files"][TASKS] == "64"


def test_a_record_of_the_order_sets_nothing_but_how_files_are_split(tmp_path: Path) -> None:
    """It may come with a savepoint, whoever made that."""
    folder = Start(tmp_path, begun=7, committed=6).folder
    others = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.sql.ansi.enabled": "false"}
    folder.write_json(ORDER_FILE, {"files": {TASKS: "2", **others}, "partitions": {}})
    session: Any = Session(cores=64)
    with order(folder, session).as_recorded():
        assert session.settings[TASKS] == "2"
        assert not others.keys() & session.settings.keys()


@pytest.mark.parametrize(
    "content", [{"files": []}, {"files": {TASKS: 2}}, {"partitions": {"0": "topic-1"}}, {"partitions": {"0": [1]}}]
)
def test_a_record_of_the_order_that_is_none_is_an_error_with_the_command_that_repairs_it(
    tmp_path: Path, content: dict[str, Any]
) -> None:
    """It is not read as one."""
    folder = Start(tmp_path).folder
    folder.write_json(ORDER_FILE, content)
    with pytest.raises(CorruptState, match="panekeeper repair"):
        order(folder, Session(cores=2))


def _log(*entries: int) -> str:
    lines = [json.dumps({"path": f"file:///in/{entry}.json", "timestamp": 1, "batchId": entry}) for entry in entries]
    return "\n".join(["v1", *lines])


def test_a_batch_reads_what_is_logged_for_it_and_not_for_the_one_before(tmp_path: Path) -> None:
    """Of each source of files but the control stream, the last one; also where a compact entry has them."""
    topic = 'v1\n{"logOffset":1}'
    files = {
        "offsets/3": 'v1\n{"conf":{}}\n{"logOffset":8}\n{"t":{"0":5}}\n-\n{"logOffset":3}',
        "offsets/4": 'v1\n{"conf":{}}\n{"logOffset":10}\n{"t":{"0":9}}\n{"logOffset":0}\n{"logOffset":4}',
        "sources/0/8": _log(8),
        "sources/0/9.compact": _log(*range(10)),
        "sources/0/10": _log(10),
        "sources/0/11": _log(11),
        "sources/1/0": topic,
        "sources/2/0": _log(0),
        "sources/3/4": _log(4),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    folder = LocalFolder(tmp_path)
    assert list(files_of_batch(folder, 4)) == [f"file:///in/{entry}.json" for entry in (9, 10, 0)]
    assert list(files_of_batch(folder, 3)) == []  # the offsets of the one before are gone
