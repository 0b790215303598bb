"""Declarations of joins: what is refused, and which columns results have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from panekeeper import DeclarationError, TimeInterval, ports, windowed
from panekeeper.framework.builder.result_columns import declared_columns
from panekeeper.framework.engine.flow.pipeline import spark_schema
from panekeeper.framework.testing.scripted_stream import ScriptedStream


def test_joins_that_cannot_be_are_refused_where_they_are_declared(tmp_path: Path) -> None:
    """Each message names what is missing, or the values, and what to give."""

    def port(columns: str = "sensor string, at timestamp, value bigint", **options: Any) -> Any:
        given: dict[str, Any] = {
            "name": "joined",
            "partition_by": "sensor",
            "event_time": "at",
            "watermark": 0,
        } | options
        scripted: Any = ScriptedStream(spark_schema(declared_columns(columns)))
        return windowed(scripted, **given)

    bounds: dict[str, Any] = {"before": 60, "after": 60}
    renamed = "name string, at timestamp, other bigint"
    for streams, options, said in [
        ([port(), port()], {}, "join_within.. is without before and after, and a join without bounds would keep"),
        ([port(), port()], {"before": 60}, "is without after, and"),
        ([port(), port(event_time=None)], bounds, "port 1 has no event time, without which join_within"),
        ([port(partition_by=None), port(partition_by=None)], bounds, "the streams have no partition_by, and"),
        ([port(), port(), port()], bounds, r"joins two streams, and ports\(\) has 3"),
        ([port(), port()], {**bounds, "how": "cross"}, "how is 'cross'; it must be 'inner', 'left', 'right' or 'full'"),
        ([port(), port()], {**bounds, "on": 5}, "on is 5; give names of columns"),
        ([port(), port(renamed, partition_by="name")], {**bounds, "on": "value"}, r"on \(port 1\): .*'value'"),
        (
            [port(), port("name string, at timestamp, sensor bigint", partition_by="name")],
            {**bounds, "on": "sensor"},
            "'sensor' is a partition column of port 0, and not the same one of port 1",
        ),
        (
            [port(), port("sensor string, at timestamp, value int")],
            {**bounds, "on": "value"},
            "'value' is int64 on port 0 and int32 on port 1; join on plain columns of one type",
        ),
        (
            [port(), port("sensor string, at timestamp_ntz")],
            bounds,
            "are of two types, timestamp and timestamp_ntz",
        ),
        ([port(), port()], {"before": 60, "after": -61}, "before is 1m and after -1m -1s, so no time is in"),
    ]:
        with pytest.raises(DeclarationError, match=said):
            ports(*streams).join_within(**options)
    joined = ports(port(), port(renamed, partition_by="name")).join_within(**bounds)
    assert joined._pipeline.spec.results_schema.names == ["sensor", "left_at", "value", "right_at", "other", "reason"]
    with pytest.raises(DeclarationError, match="a join has many rows of one key, and a view one"):
        joined.to_delta(tmp_path / "log", view=tmp_path / "view")
    paned = port().window(TimeInterval(60))
    with pytest.raises(DeclarationError, match=r"equal panes, and port 0 has TimeInterval\("):
        ports(paned, port().window(TimeInterval(61))).join()
    with pytest.raises(DeclarationError, match="must be 'inner', 'left', 'right', 'full', 'semi' or 'anti'"):
        ports(paned, paned).join(how="cross")
    semi = ports(paned, paned).join(how="semi")._pipeline.spec.results_schema.names
    assert semi == ["sensor", "pane_start", "pane_end", "at", "value", "refinement", "is_final", "reason"]
    with pytest.raises(DeclarationError, match=r"joins rows by their times, not by windows"):
        ports(paned, paned).join_within(**bounds)
    with pytest.raises(DeclarationError, match="port 1 has no window"):
        ports(paned, port())
    for method in ("operator", "aggregate"):
        with pytest.raises(DeclarationError, match="port 0 has no window"):
            getattr(ports(port(), port()), method)()
    with pytest.raises(DeclarationError, match="joins the panes of two streams"):
        ports(port(), port()).join(how="left")
