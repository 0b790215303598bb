"""What was refused of a partition, in words, and what is there in the place of what is not."""

from __future__ import annotations

import pytest

from panekeeper.framework.core.inspection.nearest import alike_but_for_case, nearest_panes
from panekeeper.framework.core.inspection.refusals import (
    LastSettlement,
    Refusal,
    missed_between,
    refusal_lines,
    remedy_lines,
    with_lateness,
)
from panekeeper.state.records import NO_WATERMARK

US = 1_000_000
HOUR = 3600 * US
TWO = 1_714_572_000 * US
"""2024-05-01T14:00:00Z."""


FOUR = "2024-05-01T16:00:00Z/2024-05-01T17:00:00Z (closed)"
FIVE = "2024-05-01T17:00:00Z/2024-05-01T18:00:00Z (fired)"
SIX = "2024-05-01T18:00:00Z/2024-05-01T19:00:00Z (fired)"


def late(*seconds: float, batch: int = 4) -> list[Refusal]:
    """Rows so many seconds after two."""
    return [Refusal(reason="LATE", detail="d", at=TWO + round(one * US), batch=batch) for one in seconds]


def test_like_rows_are_one_line_with_the_first_the_last_and_how_late_they_were() -> None:
    """By the watermark that their batch acts on, or that of the batch before where that comes after the rows."""
    rows = [*late(13, 3442, 60), *late(120, batch=7)]
    marks = {3: TWO + HOUR, 4: TWO + 2 * HOUR, 6: TWO + 2 * HOUR, 7: TWO + 3 * HOUR}
    (line,) = refusal_lines(with_lateness(rows, marks, follows=True))
    times = "2024-05-01T14:00:13Z to 2024-05-01T14:57:22Z"
    start = f"4 rows of {times} came too late in batches 4 to 7 and are in the quarantine"
    assert line.startswith(f"{start}: ")
    found = [one.behind for one in with_lateness(rows, marks, follows=False)]
    assert found == [HOUR - 13 * US, HOUR - 3442 * US, HOUR - 60 * US, 2 * HOUR - 120 * US]
    assert refusal_lines(with_lateness(rows, {}, follows=True)) == [start]
    assert with_lateness(rows, {3: NO_WATERMARK, 4: TWO}, follows=True)[0].behind is None


def test_each_reason_has_a_line_of_its_own() -> None:
    """With what was wrong, or an example of it; and firings are no rows."""
    ahead = [Refusal(reason="FUTURE_EVENT_TIME", detail=f"{n}h ahead", at=TWO, batch=n) for n in (1, 2)]
    no_time = [Refusal(reason="NULL_EVENT_TIME", detail="", batch=3)]
    firing = [Refusal(reason="SUM_OVERFLOW", detail="sum: too large\nstack", at=TWO, batch=5, of_firing=True)]
    assert refusal_lines([*ahead, *no_time, *firing]) == [
        (
            "2 rows of 2024-05-01T14:00:00Z were refused in batches 1 to 2 and are in the quarantine: "
            "FUTURE_EVENT_TIME, such as: 1h ahead"
        ),
        "a row without an event time was refused in batch 3 and is in the quarantine: NULL_EVENT_TIME",
        "a firing of it could not be computed in batch 5: SUM_OVERFLOW, sum: too large",
    ]
    assert refusal_lines([]) == []


COMMAND = "panekeeper settle c --job JOB.PY"


@pytest.mark.parametrize(
    ("settle", "closed", "settlement", "said"),
    [
        (COMMAND, True, None, "`panekeeper settle c --job JOB.PY --reason LATE` can add them"),
        (
            COMMAND,
            False,
            None,
            "once the pane is closed, `panekeeper settle c --job JOB.PY --reason LATE` can add them",
        ),
        (
            COMMAND,
            True,
            LastSettlement(),
            f"a settlement has added those that were there then; `{COMMAND} --reason LATE` adds the others",
        ),
        (
            None,
            True,
            None,
            "they cannot be settled: that is for panes of event time with aggregates of all their rows",
        ),
    ],
)
def test_what_can_be_done_about_late_rows(
    settle: str | None,
    closed: bool,  # noqa: FBT001 -- parametrized
    settlement: LastSettlement | None,
    said: str,
) -> None:
    """A command, where one helps; of an open pane not yet; of what was settled only for what came since."""
    assert remedy_lines(late(1), settle, is_closed=closed, settlement=settlement) == [said]


@pytest.mark.parametrize(
    ("reason", "refused_at", "said"),
    [
        ("LATE", [1, 2], "a settlement has added them"),
        ("LATE", [1, 8], "a settlement has added those that were there then; {command} adds the others"),
        ("LATE", [8, 9], "{command} can add them"),
        (
            "USER_ERROR",
            [1, 2],
            "a settlement has computed them again; {command} does so with a function that was corrected since",
        ),
        (
            "USER_ERROR",
            [1, None],
            (
                "a settlement has computed those again that were there then; {command} does so with a function that "
                "was corrected since"
            ),
        ),
        ("USER_ERROR", [8, 9], "{command} computes them again with a corrected function"),
    ],
)
def test_a_settlement_is_offered_for_what_came_after_the_last_one(
    reason: str, refused_at: list[int | None], said: str
) -> None:
    """Where the times of both are known; a function may have been corrected since."""
    rows = [Refusal(reason=reason, detail="", at=TWO, batch=1, refused_at=at) for at in refused_at]
    command = f"`{COMMAND} --reason {reason}`"
    assert remedy_lines(rows, COMMAND, is_closed=True, settlement=LastSettlement(5)) == [said.format(command=command)]


def test_what_cannot_be_settled_is_in_no_result() -> None:
    """A malformed row is in the quarantine with all that it has; where there is none, nothing is said."""
    malformed = [Refusal(reason="NAN_ATTRIBUTE", detail="", at=TWO, batch=1)]
    assert remedy_lines(malformed, COMMAND, is_closed=True) == [
        "no result has them; the quarantine has them with all their columns"
    ]
    assert remedy_lines([], COMMAND, is_closed=True) == []


def test_what_is_nearest_is_named_be_it_open_or_closed() -> None:
    """By the starts of panes; a partition in another case is found also among many others."""
    known = {(TWO + n * HOUR, TWO + (n + 1) * HOUR): "closed" if n < 3 else "fired" for n in range(6)}
    assert nearest_panes(known, TWO + 3 * HOUR) == [f"panes of this partition that are nearest: {FIVE}, {FOUR}, {SIX}"]
    assert nearest_panes({}, TWO) == []
    others = [(f"customer {n}", 1) for n in range(100)]
    assert alike_but_for_case(("Hooli", 1), [*others, ("Hooli", 1), ("hooli", 1), ("hooli", 2)]) == [("hooli", 1)]


def test_rows_missed_a_pane_only_while_it_was_closed_and_a_later_one_of_them_was_open() -> None:
    """By the watermark of their batch, or of the batch before; batches without missed panes are none."""
    missed, marks = {1: 5, 2: 6, 3: 0, 4: 7, 5: 8}, {batch: batch * HOUR for batch in range(1, 6)}
    assert missed_between(missed, marks, 2 * HOUR, 5 * HOUR, follows=True) == {2: 6, 4: 7}
    assert missed_between(missed, marks, 2 * HOUR, 5 * HOUR, follows=False) == {4: 7, 5: 8}
    assert missed_between(missed, {}, 2 * HOUR, 5 * HOUR, follows=True) == {}
