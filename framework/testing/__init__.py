"""The public test kit: play worked examples through the real windows, without Spark or on it.

`play` runs one *vector* (a window, its input, item by item) and returns what happened; `difference` compares that with
what should have. Vectors are plain JSON objects, so a bug report can be one.

    >>> from framework.testing import play
    >>> vector = {
    ...     "window": {"kind": "timeInterval", "intervalDuration": 10, "event_time": "ts"},
    ...     "input": [{"value": {"ts": 7}}, {"watermark": 10}],
    ... }
    >>> [event["event"] for event in play(vector, cut="each", restart_after="each")]
    ['insertion', 'initial_full', 'trigger', 'close']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from framework.declarations.errors import DeclarationError
from framework.testing.batching import Cut, Restart, runs_of
from framework.testing.compare import difference
from framework.testing.vector import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["difference", "play"]


def play(
    vector: dict[str, Any],
    *,
    engine: Literal["memory", "spark"] = "memory",
    cut: Cut = "whole",
    restart_after: Restart = "none",
    spark: SparkSession | None = None,
) -> list[dict[str, Any]]:
    """Play one vector and return its events, in the shape of a vector's `expect`.

    The same vector gives the same events for every engine, cut and restart; only the order between keys at one
    instant, and between panes of one watermark, is open (`difference` ignores it). The vector's own `expect` is not
    looked at, except that its fields are checked.

    Args:
        vector: an object of the vectors' shape. A field it does not know is refused, wherever it stands.
        engine: "memory" runs the core alone, "spark" a real streaming query.
        cut: how the input is split into micro-batches: "whole" is one, "each" one for every item, an int seeds a
            random split.
        restart_after: after which input items the process stops and resumes from its durable state: "none", "each",
            or their positions from 0. A restart ends the micro-batch.
        spark: the session to play on; `panekeeper.session()` if not given. Only for `engine="spark"`.

    Raises:
        DeclarationError: an unknown field or argument, or a window that cannot be.

    A vector of the kind "lifecycle" says what happens to state handlers; its events are their calls.

    >>> window = {"kind": "sliding", "eviction": {"policy": "count", "size": 2}}
    >>> tuples = [{"at": second, "value": {"v": second}} for second in (1, 2, 3)]
    >>> [event["tuples"] for event in play({"window": window, "input": tuples}) if event["event"] == "trigger"]
    [[{'v': 1}], [{'v': 1}, {'v': 2}], [{'v': 2}, {'v': 3}]]
    """
    if _is_lifecycle(vector) and engine in ("memory", "spark"):
        from framework.testing.lifecycle import play_lifecycle

        return play_lifecycle(vector, engine, spark)
    parsed = parse(vector)
    runs = runs_of(parsed.items, cut, restart_after)
    if engine == "memory":
        from framework.testing.memory_run import MemoryRun

        return MemoryRun(parsed).play(runs)
    if engine == "spark":
        from framework.testing.spark_run import play_on_spark

        return play_on_spark(parsed, runs, spark)
    raise DeclarationError(f'engine is {engine!r}; it must be "memory" or "spark"')


def _is_lifecycle(vector: dict[str, Any]) -> bool:
    window = vector.get("window")
    return isinstance(window, dict) and window.get("kind") == "lifecycle"
