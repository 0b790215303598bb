"""Declarations of sessions: what is refused where it is written, and what a checkpoint records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from panekeeper import DeclarationError, Every, Session, minutes
from panekeeper.framework.core.sessions.gaps import gaps_of, require_gap_type
from panekeeper.state.compatibility import Compatibility, compare_declarations, fingerprint


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"gap": 0}, "gap is 0; it must be greater than 0"),
        ({"gap": "-5 minutes"}, "gap is '-5 minutes'; it must be greater than 0"),
        ({"gap": None}, "gap is None, which is not a duration"),
        ({"gap": "5 minuets"}, "gap is '5 minuets', which is not a duration"),
        ({"gap": 5, "discard_age": -1}, "discard_age is -1; it must not be negative"),
        ({"gap": 5, "max_duration": 0}, "max_duration is 0; it must be greater than 0"),
        ({"gap": 5, "max_duration": "-1s"}, "max_duration is '-1s'; it must be greater than 0"),
        ({"gap": 5, "max_duration": 4}, "max_duration is 4, less than the gap 5; give at least the gap"),
        ({"gap": 5, "fill": "null"}, "fill is 'null'; a session has at least one row, so leave it out"),
        ({"gap": 5, "partition_eviction": 1}, "sessions have none"),
        ({"gap": 5, "emit": "always"}, "emit is 'always'; it must be"),
        ({"gap": 5, "early": "10 seconds"}, "early is '10 seconds'; write early=Every('10 seconds')"),
        (
            {"gap": 5, "early": Every(rows=2), "emit": "on_close"},
            "by emit='on_close' a session fires once, when it closes",
        ),
        ({"gap": 5, "refire": Every(rows=2)}, "but a session without discard_age takes no late rows; give discard_age"),
        ({"gap": 5, "discard_age": 5, "refire": Every(event_time=2)}, "late rows fire by rows or the wall clock"),
        ({"gap": 5, "discard_age": 5, "refire": 2}, "refire is 2; write refire=Every"),
        ({"gap": 5, "discard_age": 5, "refire": Every(rows=2), "emit": "on_update"}, "after each micro-batch anyway"),
        ({"gap": 5, "results": "all"}, "results is 'all'; it must be 'accumulating', 'discarding' or 'retracting'"),
        (
            {"gap": 5, "max_duration": 9, "results": "discarding"},
            "by max_duration=9 a session keeps its rows; leave out",
        ),
        ({"gap": "pause", "results": "discarding"}, "by gap='pause' a session keeps its rows; leave out one of them"),
    ],
)
def test_what_sessions_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    """The message names the option, its value and what to do."""
    with pytest.raises(DeclarationError) as refused:
        Session(**given)
    assert said in str(refused.value)


def test_a_checkpoint_records_what_must_stay() -> None:
    """A gap however it is written, or its column; and what decides when a session ends."""
    assert Session("30 minutes", discard_age=60).declaration() == {
        "kind": "session",
        "gap_us": 1_800_000_000,
        "max_duration_us": None,
        "discard_age_us": 60_000_000,
    }
    assert Session(minutes(30)).declaration() == Session("30m").declaration() == Session(1800).declaration()
    assert Session("pause", max_duration=9).declaration()["gap"] == "pause"
    plain, rules = Session(5, discard_age=9), {"refire": Every(rows=2), "results": "retracting"}
    assert Session(5, discard_age=9, **rules).declaration() == plain.declaration() | {  # type: ignore[arg-type]
        "refire": {"rows": 2},
        "results": "retracting",
    }


def test_another_rule_for_the_firings_of_sessions_needs_a_flush() -> None:
    """What is stored of results was stored for the rule that was declared."""
    plain = fingerprint({"window": Session(5, discard_age=9).declaration()})
    rules: list[dict[str, Any]] = [{"refire": Every("1 minute")}, {"results": "retracting"}, {"results": "discarding"}]
    for options in rules:
        ruled = fingerprint({"window": Session(5, discard_age=9, **options).declaration()})
        for old, new in ((plain, ruled), (ruled, plain)):
            (change,) = compare_declarations(old, new)
            assert (change.item, change.compatibility) == ("window", Compatibility.NEEDS_FLUSH)


@pytest.mark.parametrize(
    ("column", "gaps"),
    [
        (pa.array([2, None, -1, 0], pa.int32()), [2_000_000, 0, 0, 0]),
        (pa.array([0.5, float("nan"), float("inf"), -2.0]), [500_000, 0, 2**61, 0]),
        (pa.array([1, None], pa.decimal128(9, 2)), [1_000_000, 0]),
        (pa.array([7, None, -7], pa.duration("us")), [7, 0, -7]),
        (pa.array([2**62], pa.int64()), [2**61 // 1_000_000 * 1_000_000]),
    ],
)
def test_a_column_of_gaps_is_in_seconds_or_an_interval(column: pa.Array, gaps: list[int]) -> None:
    """Null, NaN and what is not positive are no gap; what is beyond all times is the greatest one."""
    require_gap_type("pause", column.type)
    assert gaps_of(Session("pause"), pa.table({"pause": column})).tolist() == gaps


def test_a_column_of_another_type_is_no_gap() -> None:
    """The message names the column and the types that are."""
    with pytest.raises(DeclarationError, match="gap is the column 'pause', which is string; it must be a day-time"):
        require_gap_type("pause", pa.string())
