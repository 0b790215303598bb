"""Topics of Kafka that are deleted and created again have other messages under the offsets that a job goes on at."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from panekeeper.framework.declarations.errors import JobFailed
from panekeeper.framework.engine.sources.inputs import InputsRecord
from panekeeper.framework.engine.sources.topics import TopicIds
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.job_record import Input, read_inputs


class Cluster:
    """The topics of a cluster, of which a source may read any."""

    def __init__(
        self,
        ids: dict[str, str],
        *,
        may_skip: bool = False,
        has_start: bool = False,
        gives_none: bool = False,
        subscribed: Collection[str] = "ab",
        problem: str = "UnknownTopicOrPartitionException: no topic",
    ) -> None:
        self.ids = ids
        self.may_skip = may_skip
        self.has_start = has_start
        self.gives_none = gives_none
        self.subscribed = subscribed
        self.problem = problem

    def named(self) -> list[str]:
        """As the options of a source."""
        return [*self.subscribed]

    def reads(self, topic: str) -> bool:
        """As the options of a source."""
        return topic in self.subscribed

    def of(self, topics: Collection[str]) -> dict[str, str]:
        """As of a broker."""
        return {name: self.ids[name] for name in topics if name in self.ids}


def record_of(folder: Path, cluster: Cluster) -> InputsRecord:
    """The record of a run whose source reads these topics."""
    ids: Any = cluster
    return InputsRecord(LocalFolder(folder), [Input(kind="kafka", place="")], {0: ids})


def log_offsets(folder: Path, number: int, *topics: str) -> Path:
    """Let Spark have begun a batch with these topics; return the file."""
    lines = [{"batchTimestampMs": 1, "conf": {}}, {name: {"0": 5} for name in topics}]
    place = folder / "offsets" / str(number)
    place.parent.mkdir(exist_ok=True)
    place.write_text("v1\n" + "\n".join(map(json.dumps, lines)))
    return place


def batch(
    folder: Path, *topics: str, cluster: Cluster, number: int = 0, until: Literal["begun", "read"] = "read"
) -> dict[str, str]:
    """Run the first batch of a run, which reads these topics; return what is recorded of them."""
    log_offsets(folder, number, *topics)
    record = record_of(folder, cluster)
    record.before_reading(number)
    if until == "read":
        record.after_reading()
    found = read_inputs(LocalFolder(folder))
    assert found is not None
    return dict(found[0].topics)


def test_a_topic_that_was_created_again_ends_the_job(tmp_path: Path) -> None:
    """Also in the first batch of a later run: what the new topic has below the offsets would never be read."""
    assert batch(tmp_path, "a", "b", cluster=Cluster({"a": "c:1", "b": "c:2"})) == {"a": "c:1", "b": "c:2"}
    with pytest.raises(JobFailed, match=r"topic b was deleted and created again \(its id is 3 now\)"):
        batch(tmp_path, "a", "b", cluster=Cluster({"a": "c:1", "b": "c:3"}), number=1)
    with pytest.raises(JobFailed, match="topic b"):  # and again, as the id of before is still recorded
        batch(tmp_path, "a", "b", cluster=Cluster({"a": "c:1", "b": "c:3"}), number=1)


def test_a_topic_that_was_created_again_while_its_first_batch_was_not_finished_ends_the_job(tmp_path: Path) -> None:
    """The offsets of that batch are logged, and it is run again: by then its topics are recorded."""
    batch(tmp_path, "a", cluster=Cluster({"a": "c:1"}), until="begun")
    with pytest.raises(JobFailed, match="topic a"):
        batch(tmp_path, "a", cluster=Cluster({"a": "c:2"}))


def test_a_topic_that_is_created_again_while_a_batch_reads_it_ends_the_job(tmp_path: Path) -> None:
    """Some of its rows may be of the one, and some of the other."""
    cluster = Cluster({"a": "c:1"})
    batch(tmp_path, "a", cluster=cluster, until="begun")
    cluster.ids["a"] = "c:2"
    with pytest.raises(JobFailed, match="topic a"):
        batch(tmp_path, "a", cluster=cluster)


def test_a_job_that_may_skip_messages_goes_on(tmp_path: Path) -> None:
    """`failOnDataLoss=false` says so; the next run needs it no more."""
    batch(tmp_path, "a", cluster=Cluster({"a": "c:1"}))
    assert batch(tmp_path, "a", cluster=Cluster({"a": "c:2"}, may_skip=True), number=1) == {"a": "c:2"}
    assert batch(tmp_path, "a", cluster=Cluster({"a": "c:2"}), number=2) == {"a": "c:2"}


def test_another_cluster_has_topics_of_its_own(tmp_path: Path) -> None:
    """A job that goes on with a copy of its topics elsewhere has another address of its broker."""
    batch(tmp_path, "a", cluster=Cluster({"a": "c:1"}))
    assert batch(tmp_path, "a", cluster=Cluster({"a": "d:2"}), number=1) == {"a": "d:2"}


def test_a_topic_whose_id_can_be_read_no_more_ends_the_job(tmp_path: Path) -> None:
    """It may be gone just now, and be created again until the next batch, which would go on at its offsets."""
    batch(tmp_path, "a", "b", cluster=Cluster({"a": "c:1", "b": "c:2"}))
    with pytest.raises(JobFailed, match=r"topic a may have been .* cannot be read \(Unknown.*panekeeper offsets"):
        batch(tmp_path, "a", cluster=Cluster({}), number=1)
    assert batch(tmp_path, "a", cluster=Cluster({}, may_skip=True), number=1) == {"a": "c:1"}


def test_a_broker_that_gives_no_ids_is_read_as_before(tmp_path: Path) -> None:
    """An old one, or one that does not permit it. Of a topic that is read no more nothing is kept, as Spark does."""
    assert batch(tmp_path, "a", cluster=Cluster({}, gives_none=True)) == {}
    assert batch(tmp_path, "a", "b", cluster=Cluster({"b": "c:2"}, gives_none=True), number=1) == {"b": "c:2"}
    assert batch(tmp_path, "a", cluster=Cluster({}, gives_none=True), number=2) == {}


def test_a_topic_is_not_read_while_a_broker_does_not_say_its_id(tmp_path: Path) -> None:
    """It may be deleted and created again until the next batch, and nobody would know."""
    away = Cluster({"a": "c:1"}, problem="org.apache.kafka.common.errors.TimeoutException: no node")
    with pytest.raises(JobFailed, match=r"Kafka did not respond .*no node.* Whether b was .*start the job again when"):
        batch(tmp_path, "a", "b", cluster=away)
    away.may_skip = True
    assert batch(tmp_path, "a", "b", cluster=away) == {"a": "c:1"}
    away = Cluster({}, problem=away.problem)
    with pytest.raises(JobFailed, match="Kafka did not respond"):  # nor of one that it knows
        record_of(tmp_path, away).before_query()


@pytest.mark.parametrize("has_start", [True, False])
def test_a_start_that_failed_does_not_say_where_topics_begin(tmp_path: Path, *, has_start: bool) -> None:
    """If the options do: with `earliest` now, all messages are read. By default those since the first try are."""
    (tmp_path / "sources" / "0").mkdir(parents=True)
    began = tmp_path / "sources" / "0" / "0"
    began.write_text("v1")
    record_of(tmp_path, Cluster({}, has_start=has_start)).before_query()
    assert began.exists() is not has_start


def test_the_topics_of_the_first_batch_are_recorded_before_it_begins(tmp_path: Path) -> None:
    """A kill may come before the batch has looked at them. By default it begins where the first start found the end."""
    record_of(tmp_path, Cluster({"a": "c:1"})).before_query()
    with pytest.raises(JobFailed, match="topic a was deleted and created again"):
        batch(tmp_path, "a", cluster=Cluster({"a": "c:2"}))
    (tmp_path / "offsets/0").unlink()
    with pytest.raises(JobFailed, match="topic a was deleted and created again"):
        record_of(tmp_path, Cluster({"a": "c:2"})).before_query()
    record_of(tmp_path, Cluster({"a": "c:2"}, has_start=True)).before_query()


def test_a_start_refuses_topics_that_are_others_before_spark_begins_a_batch(tmp_path: Path) -> None:
    """Spark would log a batch without them, or say that messages are gone: neither says what has happened."""
    cluster = Cluster({"a": "c:1", "b": "c:2"})
    batch(tmp_path, "a", "b", cluster=cluster)
    record_of(tmp_path, cluster).before_query()
    for now, words in (
        (Cluster({"a": "c:1", "b": "c:3"}), "topic b was deleted and created again"),
        (Cluster({"a": "c:1"}), "topic b may have been deleted"),
        (Cluster({"a": "c:1", "b": "c:2"}, subscribed="a"), "topics b were read until now.*name them no more"),
    ):
        with pytest.raises(JobFailed, match=words):
            record_of(tmp_path, now).before_query()
        now.may_skip = True
        record_of(tmp_path, now).before_query()


def test_a_batch_that_spark_has_begun_without_a_topic_is_planned_again(tmp_path: Path) -> None:
    """If the topic is there now: it goes on at its offsets. Else the next one would read it from its beginning."""
    cluster = Cluster({"a": "c:1", "b": "c:2"})
    batch(tmp_path, "a", "b", cluster=cluster)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits/0").write_text("v2\n{}")
    begun = log_offsets(tmp_path, 1, "a")
    record_of(tmp_path, Cluster({"a": "c:1"}, may_skip=True)).before_query()
    assert begun.exists()
    record_of(tmp_path, cluster).before_query()
    assert not begun.exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, False),
        ({"startingoffsets": " Latest "}, False),
        ({"startingoffsets": "earliest"}, True),
        ({"startingoffsets": '{"a":{"0":7,"1":-2}}'}, True),
        ({"startingoffsets": '{"a":{"0":7,"1":-1}}'}, False),
        ({"startingtimestamp": "1000"}, True),
        ({"startingtimestamp": "1000", "startingoffsetsbytimestampstrategy": "LATEST"}, False),
        ({"startingoffsetsbytimestamp": '{"a":{"0":9}}', "startingoffsets": "latest"}, True),
    ],
)
def test_options_say_where_topics_begin_unless_one_begins_at_its_end(options: dict[str, str], says: bool) -> None:  # noqa: FBT001
    """Where the end is depends on when the job is started."""
    session: Any = SimpleNamespace(_jvm=None)
    assert TopicIds(session, options).has_start is says


def test_a_source_reads_the_topics_that_its_options_name() -> None:
    """By a list, or by the partitions of each."""
    session: Any = SimpleNamespace(_jvm=None)
    by_name, by_partition = (
        TopicIds(session, options) for options in ({"subscribe": "a, b"}, {"assign": '{"a":[0],"b":[1]}'})
    )
    for ids in (by_name, by_partition):
        assert ids.named() == ["a", "b"]
        assert ids.reads("b")
        assert not ids.reads("c")
