"""What a changed declaration of several windows means: of each by itself, and of which there are."""

from __future__ import annotations

from typing import Any

import pytest

from panekeeper import Session, TimeInterval, agg
from panekeeper.framework.core.inspection.recorded import recorded_ports
from panekeeper.framework.testing.run import declared_job
from panekeeper.framework.testing.scripted_stream import ScriptedStream
from panekeeper.state.compatibility import Compatibility, as_recorded, compare_declarations
from panekeeper.state.history import (
    BEFORE,
    HISTORY,
    WINDOWS,
    begun_again,
    declared_part,
    in_force,
    upgraded,
)

NAMES: dict[str, Any] = {"n": agg.count(), "s": agg.sum("v")}


def recorded(aggregates: dict[str, Any] | None = None, *, key_groups: int = 4, **windows: Any) -> dict[str, Any]:
    """Return the declaration of a job as its checkpoint has it."""
    job = declared_job(
        windows=windows, aggregates=aggregates or NAMES, schema="k string, t timestamp, v bigint", event_time="t"
    )
    pipeline = job.computation([ScriptedStream(port.columns) for port in job.ports])._pipeline
    return as_recorded(pipeline.declaration(), key_groups)


def alone(window: Any) -> dict[str, Any]:
    """Return that of a job with one window."""
    job = declared_job(window, aggregates=NAMES, schema="k string, t timestamp, v bigint", event_time="t")
    return as_recorded(job.computation([ScriptedStream(port.columns) for port in job.ports])._pipeline.declaration(), 4)


HOUR, BURST = TimeInterval("1 hour"), Session("10 minutes")
BOTH = recorded(hour=HOUR, burst=BURST)


def refused(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return what needs a flush."""
    changes = compare_declarations(old, new)
    return [str(one.differences[0]) for one in changes if one.compatibility is not Compatibility.COMPATIBLE]


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (BOTH, []),
        (recorded(burst=BURST, hour=HOUR), []),
        (recorded(hour=TimeInterval("1 hour", discard_age=5), burst=BURST), []),
        (recorded({"hour": {**NAMES, "top": agg.max("v")}, "burst": NAMES}, hour=HOUR, burst=BURST), []),
        (
            recorded(hour=HOUR, burst=Session("9 minutes")),
            ["burst: window.gap: 10m in the checkpoint, 9m now"],
        ),
        (recorded(hour=HOUR), ["windows: 'burst' in the checkpoint, absent now"]),
        (recorded(hour=HOUR, burst=BURST, day=HOUR), ["windows: absent in the checkpoint, 'day' now"]),
        (
            recorded(hours=HOUR, burst=BURST),
            ["windows: absent in the checkpoint, 'hours' now", "windows: 'hour' in the checkpoint, absent now"],
        ),
        (alone(HOUR), ["windows: ['hour', 'burst'] in the checkpoint, absent now"]),
        (recorded(hour=HOUR, burst=BURST, key_groups=8), ["key_groups: 4 in the checkpoint, 8 now"]),
    ],
)
def test_each_window_may_change_as_it_may_alone(new: dict[str, Any], said: list[str]) -> None:
    """In whatever order they are declared; windows that come, go or have another name need a flush."""
    assert refused(BOTH, new) == said
    for change in compare_declarations(BOTH, new):
        assert bool(change.differences) or change.compatibility is Compatibility.COMPATIBLE


def test_each_window_has_the_history_of_a_job_with_it_alone() -> None:
    """An aggregate that is added to one begins with the pane after those that this window has."""
    new = recorded({"hour": {"top": agg.max("v"), **NAMES}, "burst": NAMES}, hour=HOUR, burst=BURST)
    nothing: dict[str, Any] = {"committed": 7, "watermark_us": 9}
    after = upgraded(BOTH, new, last_panes={"hour": 3, "burst": None}, **nothing)
    expected = upgraded(BOTH[WINDOWS]["hour"], new[WINDOWS]["hour"], committed=7, watermark_us=9, last_panes={"": 3})
    assert after[WINDOWS]["hour"] == {name: one for name, one in expected.items() if name != BEFORE}
    assert after[WINDOWS]["hour"][HISTORY]["begins"] == {"top": 4 * 3_600_000_000}
    assert after[WINDOWS]["burst"][HISTORY]["begins"] == {}
    assert in_force(after, 7) == BOTH
    assert in_force(after, 8) is after
    assert declared_part(after) == new
    assert refused(after, new) == []

    back = upgraded(after, BOTH, last_panes={"hour": 8, "burst": None}, **{**nothing, "committed": 9})
    assert back[WINDOWS]["hour"][HISTORY]["retired"] == {"top": "int64"}
    assert begun_again(back, new)[WINDOWS]["burst"] == new[WINDOWS]["burst"]
    assert begun_again(back, BOTH)[WINDOWS]["hour"][HISTORY]["retired"] == {"top": "int64"}


def test_each_window_is_known_by_its_name_to_the_inspector() -> None:
    """With the part of the store that it has."""
    assert [(one.window, one.kind, one.part) for one in recorded_ports(BOTH)] == [
        ("hour", "timeInterval", "window hour/"),
        ("burst", "session", "window burst/"),
    ]
