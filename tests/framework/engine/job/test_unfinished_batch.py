"""How an unfinished batch is read again: in its order, from its files."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from framework.declarations.errors import CorruptState
from framework.engine.job.unfinished_batch import ReadingOrder, files_of_batch
from state.checkpoint.folder import LocalFolder
from state.checkpoint.layout import ORDER_FILE
from state.checkpoint.run_record import read_order

TASKS = "spark.sql.files.minPartitionNum"


def folder_with(path: Path, *, begun: int, committed: int) -> LocalFolder:
    """A checkpoint with these numbers in Spark's logs."""
    folder = LocalFolder(path)
    folder.write_json(f"offsets/{begun}", {})
    folder.write_json(f"commits/{committed}", {})
    return folder


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
    folder = folder_with(tmp_path, begun=7, committed=7)
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


def test_starts_that_share_a_session_do_not_set_its_settings_for_each_other(tmp_path: Path) -> None:
    """One begins once the other has planned its batch; none is left with the settings of another."""
    session: Any = Session(cores=2)
    before = dict(session.settings)
    folders = [folder_with(tmp_path / name, begun=7, committed=6) for name in ("first", "second")]
    for folder, tasks in zip(folders, ("8", "16"), strict=True):
        folder.write_json(ORDER_FILE, {"files": {TASKS: tasks}, "partitions": {}})
    first, second = (order(folder, session) for folder in folders)
    inside, seen = threading.Event(), []

    def start_second() -> None:
        with second.as_recorded():
            inside.set()
            seen.append(session.settings[TASKS])

    thread = threading.Thread(target=start_second)
    with first.as_recorded():
        thread.start()
        assert not inside.wait(0.2)
        assert session.settings[TASKS] == "8"
    thread.join()
    assert seen == ["16"]
    assert session.settings == before


def test_what_a_first_batch_was_planned_with_is_recorded_though_another_start_has_set_more(tmp_path: Path) -> None:
    """The batch records it when it runs, and the next start may have begun by then."""
    session: Any = Session(cores=2)
    planned = order(folder := folder_with(tmp_path, begun=7, committed=7), session)
    with planned.as_recorded():
        pass
    session.set(TASKS, "8")
    planned.record(8, NO_QUERY)
    assert (read_order(folder) or {})["files"][TASKS] == "2"
    planned.record(9, NO_QUERY)
    assert (read_order(folder) or {})["files"][TASKS] == "8"


def test_a_record_of_the_order_sets_nothing_but_how_files_are_split(tmp_path: Path) -> None:
    """It may come with a savepoint, whoever made that."""
    folder = folder_with(tmp_path, begun=7, committed=6)
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
    folder = folder_with(tmp_path, begun=7, committed=6)
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
