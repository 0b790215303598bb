"""`play`: runs one vector in memory or on Spark and returns its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.testing.batching import BatchSplit, Restart, split_into_batches
from panekeeper.framework.testing.lifecycle import parse_lifecycle, run_step
from panekeeper.framework.testing.vector import parse
from panekeeper.state.store import MemoryStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def play(
    vector: dict[str, Any],
    *,
    engine: Literal["memory", "spark"] = "memory",
    cut: BatchSplit = "whole",
    restart_after: Restart = "none",
    spark: SparkSession | None = None,
) -> list[dict[str, Any]]:
    """Play one vector and return its events, in the shape of a vector's `expect`.

    The same vector gives the same events for every engine, cut and restart (docs/semantics.md section 1.4); only the
    order between keys at one instant, and between panes of one watermark, is open (`difference` ignores it). The
    vector's own `expect` is not compared; its fields are checked.

    A vector of the kind "lifecycle" declares state handlers and what happens to them; its events are their calls.

    Args:
        vector: an object of the vectors' shape. An unknown field is refused, wherever it stands.
        engine: "memory" runs the core alone, "spark" a real streaming query.
        cut: how the input is split into micro-batches: "whole" is one, "each" one for every item, an int seeds a
            random split.
        restart_after: after which input items the process stops and resumes from its stored state: "none", "each",
            or their positions from 0. A restart ends the micro-batch.
        spark: the session to play on; `panekeeper.session()` if not given. Only for `engine="spark"`.

    Returns:
        The events, in order.

    Raises:
        DeclarationError: an unknown field or argument, or a window that is refused.

    >>> window = {"kind": "sliding", "eviction": {"policy": "count", "size": 2}}
    >>> tuples = [{"at": second, "value": {"v": second}} for second in (1, 2, 3)]
    >>> [event["tuples"] for event in play({"window": window, "input": tuples}) if event["event"] == "trigger"]
    [[{'v': 1}], [{'v': 1}, {'v': 2}], [{'v': 2}, {'v': 3}]]
    """
    if engine not in ("memory", "spark"):
        raise DeclarationError(f'engine is {engine!r}; it must be "memory" or "spark"')
    if _is_lifecycle(vector):
        return _play_lifecycle(vector, engine, spark)
    parsed = parse(vector)
    batches = split_into_batches(parsed.items, cut, restart_after)
    if engine == "memory":
        from panekeeper.framework.testing.memory_run import MemoryRun

        return MemoryRun(parsed).play(batches)
    from panekeeper.framework.testing.spark_run import play_on_spark

    return play_on_spark(parsed, batches, spark)


def _play_lifecycle(vector: dict[str, Any], engine: str, spark: SparkSession | None) -> list[dict[str, Any]]:
    declaration, steps = parse_lifecycle(vector)
    if engine == "spark":
        from panekeeper.framework.testing.lifecycle_spark_run import run_on_spark

        return run_on_spark(declaration, steps, spark)
    store = MemoryStore()
    return [call for step in steps for call in run_step(step, declaration, store)]


def _is_lifecycle(vector: dict[str, Any]) -> bool:
    window = vector.get("window")
    return isinstance(window, dict) and window.get("kind") == "lifecycle"
