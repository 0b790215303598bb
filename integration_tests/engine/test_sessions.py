"""Sessions through a failure amid a batch, into the log and the view, which loses what a merged session replaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from panekeeper import Every, JobFailed, Session, agg, windowed
from panekeeper.framework.engine.flow import processor

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings

FILES: list[list[tuple[str, str, int]]] = [
    [("a", "10:00:10", 1), ("a", "10:02:10", 2), ("b", "10:01:00", 4)],
    [("c", "10:05:00", 8)],
    [("a", "10:01:10", 16), ("d", "10:06:00", 32)],  # it is a gap away from either session of a
    [("b", "09:00:00", 64), ("d", "10:20:00", 128)],
]
LOG = [
    ("a", "10:00:10", "10:01:10", "10:00:10", 1, [], 0, "WATERMARK"),
    ("a", "10:00:10", "10:03:10", "10:02:10", 19, ["10:02:10"], 1, "LATE"),
    ("a", "10:02:10", "10:03:10", "10:02:10", 2, [], 0, "WATERMARK"),
    ("b", "10:01:00", "10:02:00", "10:01:00", 4, [], 0, "WATERMARK"),
    ("c", "10:05:00", "10:06:00", "10:05:00", 8, [], 0, "WATERMARK"),
    ("d", "10:06:00", "10:07:00", "10:06:00", 32, [], 0, "WATERMARK"),
]
VIEW = [LOG[1], *LOG[3:]]


def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return the results as `LOG` has them."""

    def time(value: Any) -> str:
        return f"{value:%H:%M:%S}"

    return sorted(
        (
            *(row["sensor"], time(row["session_start"]), time(row["session_end"]), time(row["last_row"]), row["total"]),
            *([time(one) for one in row["replaces"]], row["refinement"], row["reason"]),
        )
        for row in rows
    )


@pytest.mark.parametrize("writer", ["the library", pytest.param("Spark", marks=pytest.mark.release)])
def test_a_merged_session_replaces_its_parts_after_a_failure(
    readings: Readings, fail_at: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    """The batch that replaces is interrupted between its two tables; the next start completes it as it is recorded."""
    if writer == "Spark":
        monkeypatch.setattr(processor, "DRIVER_BYTES", 0)
    for rows in FILES:
        readings.put(*rows)
    window: dict[str, Any] = {"window": Session("1 minute", discard_age="10 minutes")}
    fail_at("between-delta", 3)
    with pytest.raises(JobFailed, match="the line went dead"):
        readings.run(**window)
    readings.run(**window)
    assert shown(readings.rows("log")) == LOG
    assert shown(readings.rows("view")) == VIEW
    assert [row["reason"] for row in readings.rows("log_quarantine")] == ["LATE"]


def test_results_of_sessions_are_taken_back_or_added_up_across_starts(readings: Readings) -> None:
    """Two windows of one job: a row of the second start merges sessions that had fired in the first one.

    One fires at each second late row, and takes back what it had fired for either session; the other one fires the new
    rows at the next watermark. The views are the same.
    """
    about: dict[str, Any] = {"gap": "1 minute", "discard_age": "10 minutes"}

    def run() -> None:
        stream = windowed(readings.stream(), name="sessions", partition_by="sensor", event_time="at", key_groups=2)
        windows = {"back": Session(**about, refire=Every(rows=2), results="retracting")}
        windows["new"] = Session(**about, results="discarding")
        job = stream.windows(**windows).aggregate(total=agg.sum("value"))
        declared = job.to_delta(readings.folder / "log", view=readings.folder / "view")
        assert declared.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(300)

    def found(name: str) -> list[tuple[Any, ...]]:
        return sorted(
            (
                *(row["sensor"], f"{row['session_start']:%M:%S}", row["refinement"], row.get("op", 1), row["total"]),
                *(f"{one:%M:%S}" for one in row["replaces"]),
            )
            for row in readings.rows(name)
        )

    for rows in FILES[:2]:
        readings.put(*rows)
    run()
    readings.put(("a", "10:01:10", 16))
    readings.put(("d", "10:06:00", 32), ("a", "10:01:00", 64))
    run()
    assert found("log_back") == [
        ("a", "00:10", 0, -1, 1),
        ("a", "00:10", 0, 1, 1),
        ("a", "00:10", 1, 1, 83, "02:10"),
        ("a", "02:10", 0, -1, 2),
        ("a", "02:10", 0, 1, 2),
        ("b", "01:00", 0, 1, 4),
        ("c", "05:00", 0, 1, 8),
    ]
    assert found("log_new") == [
        ("a", "00:10", 0, 1, 1),
        ("a", "00:10", 1, 1, 80, "02:10"),
        ("a", "02:10", 0, 1, 2),
        ("b", "01:00", 0, 1, 4),
        ("c", "05:00", 0, 1, 8),
    ]
    newest = [("a", "00:10", 1, 1, 83, "02:10"), ("b", "01:00", 0, 1, 4), ("c", "05:00", 0, 1, 8)]
    assert found("view_back") == found("view_new") == newest
