"""What the listener of queries over `transform()` costs a session: it stays, and Spark tells it of every batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import java_gateway

from panekeeper.framework.engine.job.own_query import require_its_checkpoint


class Session:
    """A session of Spark, as far as listeners are added to it."""

    def __init__(self) -> None:
        self.listeners = list[Any]()
        package = SimpleNamespace(PythonStreamingQueryListenerWrapper=lambda listener: listener)
        for name in ("streaming", "sql", "spark", "apache", "org"):
            package = SimpleNamespace(**{name: package})
        self.sparkContext = SimpleNamespace(_gateway=SimpleNamespace(jvm=package))
        self.streams = SimpleNamespace(_jsqm=SimpleNamespace(addListener=self.listeners.append))


def checkpoint(spark: Session, place: str) -> Any:
    """Return the files of a checkpoint."""
    return SimpleNamespace(spark=spark, place=place)


def test_a_session_has_one_listener_however_many_queries_it_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one for each, the hundredth query of a notebook would pay for all before it at each batch."""
    monkeypatch.setattr(java_gateway, "ensure_callback_server_started", lambda _: None)
    one, other = Session(), Session()
    for place in ("/a", "/b", "/a", "/c"):
        require_its_checkpoint(checkpoint(one, place))
    require_its_checkpoint(checkpoint(other, "/a"))
    assert [len(one.listeners), len(other.listeners)] == [1, 1]


def test_the_progress_of_a_batch_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is passed as Java's object, which has no value here: to read one is a call into Java."""
    monkeypatch.setattr(java_gateway, "ensure_callback_server_started", lambda _: None)
    spark = Session()
    require_its_checkpoint(checkpoint(spark, "/a"))
    nothing = object()
    for call in ("onQueryProgress", "onQueryIdle", "onQueryTerminated"):
        assert getattr(spark.listeners[0], call)(nothing) is None
