"""What Spark runs without an error, and a job over windows seldom means: said once, when the stream is declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from panekeeper.framework.engine.sources.streams import kind_of, nodes, plan_of, sources_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RESULTS = {"refinement", "is_final", "reason"}
"""Columns of a log or view of panes or sessions."""
_CHOOSE_FIRINGS = ("is_final#", "refinement#")
"""How Spark prints the columns by which the firings of a pane are told apart; a filter by one of them is a choice."""
_DELAY = "spark.watermarkDelayMs"
"""Where Spark keeps the delay of the watermark of a column."""


def cautions(df: DataFrame, name: str, *, event_time: str | None) -> Iterator[str]:
    """Yield what the user should know of the stream of a job.

    With a column of event time Spark takes no watermark but that of the job.
    """
    operators = [(kind_of(node), node) for node in nodes(plan_of(df))]
    if any(kind == "Deduplicate" and _is_unbounded(node) for kind, node in operators):
        where = "by dedupe= of windowed(), or in a query of its own before this one: " if event_time is not None else ""
        yield (
            f"dropDuplicates() before the windows of {name!r} keeps every row that it has seen, for ever: no watermark "
            f"bounds it. Bound it {where}df.withWatermark(...).dropDuplicatesWithinWatermark([...]) "
            "(docs/chained-jobs.md)"
        )
    if any(kind == "Join" and _joins_without_bounds(node) for kind, node in operators):
        yield (
            f"a join of streams before the windows of {name!r} keeps every row of both, for ever: no watermark bounds "
            "it. Let one operator have both streams, each with its window: ports(a, b).operator(...)"
        )
    has_filter = any(
        kind == "Filter" and any(column in str(node.condition()) for column in _CHOOSE_FIRINGS)
        for kind, node in operators
    )
    for _, source in sources_of([df]):
        names = set(source.schema().fieldNames())
        if names >= _RESULTS and "_change_type" not in names and not has_filter:
            yield (
                f"{name!r} reads results of another job, where a pane that has refined has several rows, so what is "
                'computed from them counts it twice. Read one row a pane, df.where("is_final") if each pane fires when '
                "it closes, or the changes of the view (docs/chained-jobs.md)"
            )


def _is_unbounded(deduplicate: Any) -> bool:
    """Whether it is of a stream, and none of its keys has a watermark."""
    if not deduplicate.isStreaming():
        return False
    keys = deduplicate.keys()
    return not any(keys.apply(number).metadata().contains(_DELAY) for number in range(keys.size()))


def _joins_without_bounds(join: Any) -> bool:
    """Whether both sides are streams, neither with a watermark."""
    if not (join.left().isStreaming() and join.right().isStreaming()):
        return False
    return not any(kind_of(node) == "EventTimeWatermark" for node in nodes(join))
