"""Text that is not UTF-8 within a struct, an array or a map."""

from __future__ import annotations

from typing import TYPE_CHECKING

from panekeeper import Count, Tumbling, agg, windowed

if TYPE_CHECKING:
    from integration_tests.engine.conftest import Readings

SOUND = {"st": "named_struct('a', 'x', 'b', array('y', null))", "ma": "map('k', named_struct('c', 'v'))", "no": "null"}
BAD = "CAST(X'FFFE' AS STRING)"
ODD = {
    1: {"st": f"named_struct('a', {BAD}, 'b', array('y', null))"},
    2: {"st": f"named_struct('a', 'x', 'b', array(null, {BAD}))"},
    3: {"ma": f"map({BAD}, named_struct('c', 'v'))"},
    4: {"ma": f"map('k', named_struct('c', {BAD}))"},
}
"""Values that the columns have in the rows of these numbers."""


def test_a_row_with_such_text_is_quarantined_and_the_view_takes_what_comes_after_it(readings: Readings) -> None:
    """However deep the text lies; nulls beside it are sound. A view that had it could not be merged into any more."""
    rows = readings.stream()
    for name, sound in SOUND.items():
        cases = " ".join(f"WHEN {number} THEN {values[name]}" for number, values in ODD.items() if name in values)
        rows = rows.selectExpr("*", f"CASE value {cases} ELSE {sound} END AS {name}" if cases else f"{sound} AS {name}")
    window = windowed(rows, name="texts", partition_by="sensor").window(Tumbling(Count(1)))
    firsts = {name: agg.first(name) for name in ("st", "ma")}
    job = window.aggregate(at=agg.max("value"), **firsts).to_delta(
        readings.folder / "log", view=readings.folder / "view"
    )
    for number in range(6):
        readings.put(("a", "10:00:00", number))
        assert job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)
    assert sorted(row["at"] for row in readings.rows("log")) == [0, 5]
    assert [row["at"] for row in readings.rows("view")] == [5]
    assert [row["reason"] for row in readings.rows("log_quarantine")] == ["INVALID_UTF8"] * 4
