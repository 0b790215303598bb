"""Topics of Kafka that are deleted and created again have other messages under the offsets that a job goes on at."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

import pytest

from framework.declarations.errors import JobFailed
from framework.engine.sources.inputs_record import InputsRecord
from state.checkpoint.folder import LocalFolder
from state.checkpoint.run_record import Input, read_inputs


class Cluster:
    """The topics of a cluster, of which a source may read any."""

    def __init__(self, ids: dict[str, str], *, may_skip: bool = False, has_start: bool = False) -> None:
        self.ids = ids
        self.may_skip = may_skip
        self.has_start = has_start
        self.problem = "no response"

    def of(self, topics: Collection[str]) -> dict[str, str]:
        """As of a broker."""
        return {name: self.ids[name] for name in topics if name in self.ids}


def batch(
    folder: Path, *topics: str, cluster: Cluster, number: int = 0, until: Literal["begun", "read"] = "read"
) -> dict[str, str]:
    """Run the first batch of a run, which reads these topics; return what is recorded of them."""
    lines = [{"batchTimestampMs": 1, "conf": {}}, {name: {"0": 5} for name in topics}]
    place = folder / "offsets" / str(number)
    place.parent.mkdir(exist_ok=True)
    place.write_text("v1\n" + "\n".join(map(json.dumps, lines)))
    ids: Any = cluster
    record = InputsRecord(LocalFolder(folder), [Input(kind="kafka", place=",".join(topics))], {0: ids})
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
    with pytest.raises(JobFailed, match=r"topic a may have been .* cannot be read \(no response\).*panekeeper offsets"):
        batch(tmp_path, "a", cluster=Cluster({}), number=1)
    assert batch(tmp_path, "a", cluster=Cluster({}, may_skip=True), number=1) == {"a": "c:1"}


def test_a_broker_that_gives_no_ids_is_read_as_before(tmp_path: Path) -> None:
    """An old one, or one that does not permit it. Of a topic that is read no more nothing is kept, as Spark does."""
    assert batch(tmp_path, "a", cluster=Cluster({})) == {}
    assert batch(tmp_path, "a", "b", cluster=Cluster({"b": "c:2"}), number=1) == {"b": "c:2"}
    assert batch(tmp_path, "a", cluster=Cluster({}), number=2) == {}


@pytest.mark.parametrize("has_start", [True, False])
def test_a_start_that_failed_does_not_say_where_topics_begin(tmp_path: Path, *, has_start: bool) -> None:
    """If the options do: with `earliest` now, all messages are read. By default those since the first try are."""
    (tmp_path / "sources" / "0").mkdir(parents=True)
    began = tmp_path / "sources" / "0" / "0"
    began.write_text("v1")
    ids: Any = Cluster({}, has_start=has_start)
    InputsRecord(LocalFolder(tmp_path), [Input(kind="kafka", place="a")], {0: ids}).before_query()
    assert began.exists() is not has_start
