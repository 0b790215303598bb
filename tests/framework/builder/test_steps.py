"""Who calls a step of a declaration that does not come next is told which one does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from panekeeper import Session, TimeInterval, agg, ports, windowed
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
