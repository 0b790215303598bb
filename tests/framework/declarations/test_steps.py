"""Who calls a step of a declaration that does not come next is told which one does."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest

from panekeeper import Job, Session, TimeInterval, agg, ports, windowed
from panekeeper.framework.builder.result_columns import declared_columns
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.testing.scripted_stream import ScriptedStream


def stream() -> Any:
    """A stream without its window."""
    made: Any = ScriptedStream(spark_schema(declared_columns("k string, at timestamp")))
    return windowed(made, name="readings", partition_by="k", event_time="at", watermark="10 minutes")


def paned() -> Any:
    """It with a window."""
    return stream().window(TimeInterval("1 hour"))


def computed() -> Any:
    """It with aggregates."""
    return paned().aggregate(n=agg.count())


def complete() -> Any:
    """It with its tables."""
    return computed().to_delta("out/log")


def started() -> Any:
    """A job that was started, as far as its name."""
    run: Any = SimpleNamespace(name="readings")
    return Job(run, run, run)


@pytest.mark.parametrize(
    ("made", "name", "said"),
    [
        (computed, "start", r"has no start\(\) yet; the next step is \.to_delta\(path\)"),
        (computed, "await_end", r"has no await_end\(\) yet; the next step is \.to_delta\(path\)"),
        (computed, "aggregate", r"has no aggregate\(\), which comes before it; the next step is \.to_delta\(path\)"),
        (computed, "trigger", r'has no trigger\(\); write \.start\(checkpoint=\.\.\., trigger="available_now"\)'),
        (computed, "groupBy", r"has no groupBy\(\); write windowed\(\.\.\., partition_by=\.\.\.\)"),
        (computed, "to_detla", r"has no to_detla\(\); did you mean 'to_delta'\?"),
        (computed, "x", r"has no x\(\); the next step is \.to_delta\(path\)"),
        (lambda: computed().to_delta("out/log"), "await_end", r"yet; the next step is \.start\(checkpoint=\.\.\.\)"),
        (lambda: computed().to_delta("out/log"), "awaitTermination", r"write \.start\(checkpoint=\.\.\.\), and then"),
        (complete, "isActive", r"write \.start\(checkpoint=\.\.\.\), and then \.running$"),
        (computed, "running", r"has no running\(\) yet; the next step is \.to_delta\(path\)"),
        (computed, "writeStream", r"has no writeStream\(\); write \.to_delta\(path\)$"),
        (complete, "writeStream", r"which comes before it; the next step is \.start\(checkpoint=\.\.\.\)$"),
        (computed, "option", r"has no option\(\); write \.to_delta\(path\)\.start\(checkpoint=\.\.\.\)$"),
        (complete, "option", r"has no option\(\); write \.start\(checkpoint=\.\.\.\)$"),
        (computed, "foreach", r"write \.to_delta\(path\)\.foreach_batch\(\.\.\.\)$"),
        (complete, "foreachBatch", r"has no foreachBatch\(\); write \.foreach_batch\(\.\.\.\)$"),
        (computed, "toTable", r"has no toTable\(\); write \.to_delta\(table=\.\.\.\)$"),
        (computed, "outputMode", r'write TimeInterval\("10 minutes", emit="on_update"\), the output mode update; '),
        (computed, "sideOutputLateData", r"write \.to_delta\(path, quarantine=\.\.\.\)$"),
        (computed, "sum", r"has no sum\(\), which comes before it; the next step is \.to_delta\(path\)$"),
        (stream, "dropDuplicatesWithinWatermark", r'write windowed\(dedupe="id", dedupe_for="1 hour"\)$'),
        (stream, "withWatermark", r"write windowed\(\.\.\., event_time=\.\.\., watermark=\.\.\.\)$"),
        (stream, "queryName", r"write windowed\(\.\.\., name=\.\.\.\)$"),
        (started, "awaitTermination", r"^the started job readings has no awaitTermination\(\); write \.await_end\(\)$"),
        (started, "exception", r"write \.await_end\(\)$"),
        (started, "isActive", r"has no isActive\(\); write \.running$"),
        (started, "lastProgress", r"write \.status\(\)$"),
        (started, "recentProgress", r"write \.status\(\)$"),
        (started, "processAllAvailable", r"write \.process_available\(\)$"),
        (started, "name", r"write \.status\(\)$"),
        (started, "start", r"has no start\(\), which comes before it; it has await_end, stop, "),
        (started, "writeStream", r"which comes before it; it has await_end, "),
        (started, "await_ends", r"has no await_ends\(\); did you mean 'await_end'\?$"),
        (started, "runId", r"has no runId\(\); it has await_end, stop, drain, "),
        (stream, "aggregate", r"without a window, has no aggregate\(\) yet; the next step is \.window\("),
        (stream, "keyBy", r"write windowed\(\.\.\., partition_by=\.\.\.\)"),
        (paned, "to_delta", r"has no to_delta\(\) yet; the next step is \.aggregate\(n=agg\.count\(\)\)"),
        (paned, "process", r"write \.operator\(\.\.\.\)"),
        (lambda: stream().windows(a=TimeInterval(1), b=Session(1)), "start", r"the next step is \.aggregate\("),
        (lambda: ports(paned(), paned()), "to_delta", r"the next step is \.operator\(\.\.\.\), or \.join\(\)"),
        (lambda: ports(stream(), stream()), "to_delta", r"yet; the next step is \.join_within\("),
    ],
)
def test_a_step_that_does_not_come_next_names_the_one_that_does(made: Any, name: str, said: str) -> None:
    """As an `AttributeError`, so that `hasattr` stays what it is."""
    with pytest.raises(AttributeError, match=said):
        getattr(made(), name)
    assert not hasattr(made(), name)


def test_what_python_looks_for_itself_is_simply_not_there() -> None:
    """A copy of a declaration begins without any field, and asks for methods with underscores."""
    assert not hasattr(computed(), "_repr_markdown_")
    assert copy.copy(computed())._pipeline.spec.output.names == ["n"]
