"""Which panes can be settled is known also from the recorded declaration, without the program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from panekeeper import (
    Calendar,
    Count,
    Cumulate,
    DeclarationError,
    Every,
    Session,
    SlidingByRow,
    TimeInterval,
    Tumbling,
    agg,
)
from panekeeper.framework.core.inspection.recorded import recorded_ports
from panekeeper.framework.declarations.windows import Window
from panekeeper.recovery.settle.panes import require_supported
from panekeeper.state.compatibility import fingerprint
from tests.framework.core.inspection.test_open_panes import port_of
from tests.framework.core.panes.firings import spec_of


@pytest.mark.parametrize(
    "window",
    [
        TimeInterval(10, discard_age=5),
        TimeInterval(10, early=Every(rows=3), emit="on_complete"),
        Cumulate(10, 30),
        Calendar("day", zone="Europe/Berlin"),
        TimeInterval(10, results="discarding"),
        TimeInterval(10, results="retracting"),
        TimeInterval(10, fires_when="sum > 3"),
        TimeInterval(10, fill="zero", fill_for=30),
        Session(10),
        SlidingByRow(10),
        Tumbling(Count(3)),
    ],
    ids=str,
)
def test_a_window_can_be_settled_if_and_only_if_settle_takes_it(window: Window) -> None:
    """Of each kind of window, and with each option that decides."""
    spec = replace(spec_of(TimeInterval(10)), window=window)
    try:
        takes = require_supported(spec) is window
    except DeclarationError:
        takes = False
    assert port_of(spec).can_settle == takes


@pytest.mark.parametrize(
    "more",
    [
        {"operator": "MyOperator"},
        {"handlers": ["Counts"]},
        {"dedupe": ["id"], "dedupe_for_us": 5},
        {"port_1": {"window": Session(5).declaration(), "partition_by": {"k": "string"}, "event_time": "t"}},
        {"aggregate": {"top": {"kind": "groups"}}},
        {"aggregate": {}, "operator": "MyOperator"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_a_job_has_besides_may_stand_against_it(more: dict[str, Any]) -> None:
    """An operator, state handlers, ids that are left out, several inputs, a row for each group."""
    declared = {
        "window": TimeInterval(10).declaration(),
        "partition_by": {"k": "string"},
        "event_time": "t",
        "aggregate": {"n": agg.count().declaration()},
        "output": {"n": "int64"},
    }
    assert recorded_ports(fingerprint(declared))[0].can_settle
    assert not recorded_ports(fingerprint(declared | more))[0].can_settle
