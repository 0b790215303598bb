"""What the quarantine has of a partition, without Spark, where its texts say which value each is."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from panekeeper.diagnostics.inspector.quarantined import refused_in
from panekeeper.diagnostics.inspector.why import panes_by_clock
from panekeeper.framework.core.inspection.recorded import RecordedPort, recorded_ports
from panekeeper.framework.core.inspection.refusals import Refusal

TEN = datetime(2024, 5, 1, 10, tzinfo=UTC)
US = 1_000_000


def port(**declared: Any) -> RecordedPort:
    """A window of panes, as a checkpoint records it."""
    from panekeeper import TimeInterval, agg
    from panekeeper.state.compatibility import fingerprint

    recorded = {
        "window": TimeInterval(60).declaration(),
        "partition_by": {"customer": "string", "shop": "int32"},
        "event_time": "at",
        "aggregate": {"n": agg.count().declaration()},
        "output": {"n": "int64"},
    }
    return recorded_ports(fingerprint(recorded | declared))[0]


def quarantine(*rows: tuple[int, str, datetime | None, dict[str, Any]]) -> pa.Table:
    """A quarantine table: batch, reason, event time, and the row."""
    batches, reasons, times, texts = zip(*rows, strict=True)
    columns = {"batch": pa.array(batches), "reason": reasons, "detail": [None] * len(rows)}
    time = pa.array(times, pa.timestamp("us", "UTC"))
    columns["quarantined_at"] = pa.nulls(len(rows), time.type)
    return pa.table(columns | {"event_time": time, "row": [json.dumps(one) for one in texts]})


def test_rows_of_a_partition_are_found_whatever_their_reason() -> None:
    """Also those without an event time; not those of another partition, nor of later batches."""
    own = {"customer": "hooli", "shop": 1}
    table = quarantine(
        (3, "NULL_EVENT_TIME", None, own),
        (2, "LATE", TEN, own),
        (2, "LATE", TEN, own | {"customer": "Hooli"}),
        (2, "LATE", TEN, own | {"shop": None}),
        (9, "LATE", TEN, own),
    )
    values = {"customer": pa.scalar("hooli"), "shop": pa.scalar(1, pa.int32())}
    at = (TEN - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert refused_in(table, port(), values, until=5) == [
        Refusal(reason="LATE", detail="", at=at, batch=2),
        Refusal(reason="NULL_EVENT_TIME", detail="", batch=3),
    ]
    firing = quarantine((1, "SUM_OVERFLOW", None, own | {"pane_start": "2024-05-01T10:00:00Z"}))
    assert refused_in(firing, port(), values, until=5) is None
    assert refused_in(table, port(partition_by={"day": "date32[day]"}), {}, until=5) is None


def test_rows_of_both_inputs_of_joined_panes_are_found_by_the_names_of_each() -> None:
    """The partition columns of the second one may be called otherwise."""
    other = port().fields
    joined = port(
        partition_by={"customer": "string"},
        join={"how": "inner"},
        port_1={"window": other, "partition_by": {"client": "string"}, "event_time": "at"},
    )
    table = quarantine((1, "LATE", TEN, {"customer": "a"}), (1, "LATE", TEN, {"client": "a"}), (1, "LATE", TEN, {}))
    found = refused_in(table, joined, {"customer": pa.scalar("a")}, until=1)
    assert found is not None
    assert len(found) == 2


def test_a_time_of_day_is_that_of_the_only_pane_that_begins_or_has_it() -> None:
    """On whichever day; of several all are returned."""
    hour, day = 3600 * US, 86_400 * US
    known = [(n * hour, (n + 1) * hour) for n in range(14, 17)] + [(23 * hour, day + hour)]
    assert panes_by_clock(known, 15 * hour) == [(15 * hour, 16 * hour)]
    assert panes_by_clock(known, 14 * hour + 20 * 60 * US) == [(14 * hour, 15 * hour)]
    assert panes_by_clock(known, 30 * 60 * US) == [(23 * hour, day + hour)]
    assert panes_by_clock([*known, (day + 15 * hour, day + 16 * hour)], 15 * hour) == [
        (15 * hour, 16 * hour),
        (day + 15 * hour, day + 16 * hour),
    ]
    assert panes_by_clock(known, 3 * hour) == []
