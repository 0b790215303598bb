"""Why a pane fired, or why not: of generated situations, each answer is that of the naive model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panekeeper import TimeInterval
from panekeeper.framework.core.inspection.reasons import (
    Answer,
    Firing,
    Mover,
    PaneFacts,
    Passed,
    SourceTime,
    Verdict,
    passed_by,
    why_pane,
)
from panekeeper.framework.core.inspection.refusals import Refusal
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import BatchOutcome
from panekeeper.state.records import NO_WATERMARK
from panekeeper.state.store import MemoryStore
from tests.framework.core.inspection.test_open_panes import UNENDED, US, opened
from tests.framework.core.panes.firings import spec_of
from tests.framework.core.panes.test_firing_properties import batches_of, panes
from tests.model.firing_panes import NaivePanes

KEYS = "abc"


class Told:
    """A run in memory, and what its tables have: by batch, as a job writes them."""

    def __init__(self, window: TimeInterval) -> None:
        self.window, self.spec, self.store = window, spec_of(window), MemoryStore()
        self.watermarks: dict[int, int] = {}
        self.firings: dict[tuple[str, float], list[Firing]] = {}
        self.refused: list[tuple[str, Refusal]] = []
        self.held: dict[tuple[str, float], dict[str, Any]] = {}

    def play(self, script: list[tuple[Any, ...]]) -> None:
        for batch, steps in enumerate(batches_of(script)):
            outcome: BatchOutcome = KeyGroupRunner(self.spec, self.store).run(steps)
            self.watermarks[batch] = NO_WATERMARK if outcome.watermark is None else outcome.watermark
            for row in [] if outcome.results is None else outcome.results.to_pylist():
                firing = Firing(
                    refinement=row["refinement"], reason=row["reason"], is_final=row["is_final"], batch=batch
                )
                self.firings.setdefault((row["k"], row["pane_start"].timestamp()), []).append(firing)
            for row in [] if outcome.rejected is None else outcome.rejected.to_pylist():
                at = round(row["event_time"].timestamp() * US)
                key = row["row"].partition('"k":"')[2][0]
                self.refused.append((key, Refusal(reason=row["reason"], detail=row["detail"], at=at, batch=batch)))
        self.held = opened(self.spec, self.store)

    def why(self, key: str, start: int, *, flushed: bool = False) -> Answer:
        end = start * US + self.window.duration_us
        closes = end + self.window.age_us
        in_pane = [one for of, one in self.refused if of == key and one.at is not None and start * US <= one.at < end]
        facts = PaneFacts(
            start=start * US,
            end=end,
            ready_at=closes if self.window.emit == "on_close" else end,
            closes_at=closes,
            watermark=max(self.watermarks.values()),
            held=self.held.get((key, start)),
            firings=self.firings.get((key, start), ()),
            refused=in_pane,
            settle="panekeeper settle c --job JOB.PY",
            watermarks=self.watermarks,
            is_flushed=flushed,
        )
        return why_pane(facts)


class Remembers(NaivePanes):
    """The model, which also remembers of each cell that it had, and of each row that it dropped, in which batch."""

    def __init__(self, window: dict[str, Any]) -> None:
        super().__init__(window)
        self.batch = 0
        self.fired_in: dict[tuple[str, int], list[int]] = {}
        self.dropped: list[tuple[str, int, int]] = []

    def row(self, key: str, time: int, value: int) -> None:
        had = sum(len(cell.rows) for cells in self.cells.values() for cell in cells.values())
        super().row(key, time, value)
        since = time - self.window["interval_offset"]
        size, period = self.window["interval_duration"], self.window["creation_period"]
        in_gap = since // period * period + size <= since
        if had == sum(len(cell.rows) for cells in self.cells.values() for cell in cells.values()) and not in_gap:
            self.dropped.append((key, time, self.batch))

    def fire(self, pane: int, key: str, reason: str, *, complete: bool, closes: bool = False) -> None:
        super().fire(pane, key, reason, complete=complete, closes=closes)
        self.fired_in.setdefault((key, self.end_of(pane) - self.window["interval_duration"]), []).append(self.batch)

    def end(self) -> None:
        super().end()
        self.batch += 1


def dropped_of(model: Remembers, key: str, pane: int) -> list[int]:
    """The batches in which rows of a pane of a partition were dropped."""
    start = model.end_of(pane) - model.window["interval_duration"]
    return [batch for of, at, batch in model.dropped if of == key and start <= at < model.end_of(pane)]


def expected(model: Remembers, key: str, pane: int, watermark: int) -> tuple[Verdict, int | None]:
    """What the model says of a pane of a partition at a watermark, and in which batch it came about."""
    start = model.end_of(pane) - model.window["interval_duration"]
    cell, fired = model.cells.get(pane, {}).get(key), model.fired_in.get((key, start), [])
    if cell is not None:
        if cell.new or not cell.complete:
            return Verdict.WAITING, None
        return (Verdict.REFINED if cell.fired > 1 else Verdict.FIRED), fired[-1]
    if fired:
        return Verdict.CLOSED, fired[-1]
    if dropped := dropped_of(model, key, pane):
        return Verdict.DROPPED, dropped[0]
    is_closed = watermark >= (model.end_of(pane) + model.window["discard_age"]) * US
    return (Verdict.NEVER if is_closed else Verdict.NOT_YET), None


@settings(max_examples=50)
@given(
    panes=panes(), age=st.sampled_from((0, 0, 3, 12)), script=UNENDED, emit=st.sampled_from(("on_complete", "on_close"))
)
def test_of_each_pane_of_a_generated_situation_the_answer_is_that_of_the_model(
    panes: dict[str, Any], age: int, script: list[tuple[Any, ...]], emit: Any
) -> None:
    """Fired, refined, waiting, closed, dropped, not yet, or never was; in which batch; how many rows are missing."""
    given = panes | {"discard_age": age}
    window = TimeInterval(**given, emit=emit)
    told, model = Told(window), Remembers(given | {"emit": emit})
    told.play(script)
    model.play(script)
    for key in KEYS:
        for pane in range(-2, 50):
            start = model.end_of(pane) - given["interval_duration"]
            answer = told.why(key, start)
            watermark = max(told.watermarks.values())
            assert (answer.verdict, answer.batch) == expected(model, key, pane, watermark), str(answer)
            assert answer.reasons
            missing = len(dropped_of(model, key, pane))
            said = [one for one in answer.reasons if "came too late" in one]
            assert [one.partition(" ")[0] for one in said] == (
                ["a" if missing == 1 else str(missing)] if missing else []
            )
            assert ("panekeeper settle" in str(answer)) == bool(missing)


def test_every_verdict_is_met() -> None:
    """One situation has them all; a batch that the log does not tell follows from the watermarks of the metrics."""
    told = Told(TimeInterval(10, discard_age=10))
    told.play(
        [
            *(("row", "a", 1, 1), ("end",), ("watermark", 12), ("end",), ("row", "a", 2, 1), ("end",)),
            *(("watermark", 13), ("row", "b", 11, 1), ("row", "a", 25, 1), ("end",)),
        ]
    )
    assert told.why("a", 0).verdict is Verdict.REFINED
    assert told.why("a", 0).batch == 3
    assert told.why("a", 20).verdict is Verdict.WAITING
    told.play([("watermark", 21), ("row", "c", 3, 1), ("end",)])
    assert told.why("a", 0).verdict is Verdict.CLOSED
    assert told.why("c", 0).verdict is Verdict.DROPPED
    assert told.why("c", 40).verdict is Verdict.NOT_YET
    assert told.why("b", 0).verdict is Verdict.NEVER
    told.firings = {}
    told.watermarks = {0: NO_WATERMARK, 1: 12 * US, 2: 12 * US, 3: 13 * US, 4: 21 * US}
    assert (told.why("b", 10).verdict, told.why("b", 10).batch) == (Verdict.FIRED, 4)


ELEVEN = 1_362_736_800 * US + 3600 * US
"""2013-03-08T11:00:00Z."""
HOUR, MINUTE = 3600 * US, 60 * US
LATE = Refusal(reason="LATE", detail="late", at=ELEVEN - MINUTE, batch=4, behind=2 * HOUR)
NO_TIME = Refusal(reason="NULL_EVENT_TIME", detail="", batch=3)
FIRING = Refusal(reason="USER_ERROR", detail="ZeroDivisionError: 0\nstack", batch=3, of_firing=True)
HELD = {"rows": 3, "firings": 0, "unfired": True, "fires_at": ELEVEN, "next_rows": None, "next_clock": None}


def facts(**changed: Any) -> PaneFacts:
    """A pane from 10:00 to 11:00 that waits at 10:41."""
    given: dict[str, Any] = {"start": ELEVEN - HOUR, "end": ELEVEN, "ready_at": ELEVEN, "closes_at": ELEVEN + HOUR}
    return PaneFacts(**(given | {"watermark": ELEVEN - 19 * MINUTE, "held": HELD} | changed))


@pytest.mark.parametrize(
    ("changed", "reasons"),
    [
        (
            {
                "sources": [
                    SourceTime(
                        name="port 1",
                        reached=ELEVEN - 19 * MINUTE,
                        delay=10 * MINUTE,
                        silent=4 * MINUTE,
                        idle_after=5 * MINUTE,
                    )
                ]
            },
            [
                "it waits for a watermark of 2013-03-08T11:00:00Z, with 3 rows; the watermark is 2013-03-08T10:41:00Z",
                (
                    "port 1 stands at 2013-03-08T10:51:00Z less 10m: 2013-03-08T10:41:00Z, and has had no row "
                    "for 4m (idle at 5m)"
                ),
            ],
        ),
        (
            {"sources": [SourceTime(name="port 0", reached=None, silent=6 * MINUTE, idle_after=5 * MINUTE)]},
            [
                "it waits for a watermark of 2013-03-08T11:00:00Z, with 3 rows; the watermark is 2013-03-08T10:41:00Z",
                (
                    "port 0 has had no row yet, and has had no row for 6m (idle at 5m); it is idle, so the "
                    "watermark goes on without it"
                ),
            ],
        ),
        (
            {"ahead": ELEVEN + MINUTE},
            [
                "it waits for a watermark of 2013-03-08T11:00:00Z, with 3 rows; the watermark is 2013-03-08T10:41:00Z",
                "the next batch has the watermark 2013-03-08T11:01:00Z, and fires it",
            ],
        ),
        (
            {"held": HELD | {"next_rows": 7, "next_clock": ELEVEN, "rows": None}},
            [
                "it waits for a watermark of 2013-03-08T11:00:00Z; the watermark is 2013-03-08T10:41:00Z",
                "or it fires after 7 more rows",
                "or it fires by the wall clock at 2013-03-08T11:00:00Z",
            ],
        ),
        (
            {
                "held": HELD | {"firings": 1, "unfired": False, "fires_at": None},
                "watermark": ELEVEN + MINUTE,
                "watermarks": {11: ELEVEN - MINUTE, 12: ELEVEN + MINUTE},
                "sources": [SourceTime(name="port 0", reached=ELEVEN + MINUTE, delay=10 * MINUTE)],
                "follows": True,
            },
            [
                (
                    "it fired in batch 12: the watermark went from 2013-03-08T10:59:00Z to "
                    "2013-03-08T11:01:00Z, and so reached 2013-03-08T11:00:00Z; it is the greatest event "
                    "time that the batches before it had read, "
                    "2013-03-08T11:11:00Z, less the delay of 10m"
                ),
                "it takes late rows until the watermark, now 2013-03-08T11:01:00Z, reaches 2013-03-08T12:00:00Z",
            ],
        ),
        (
            {
                "held": None,
                "refused": [
                    Refusal(reason="USER_ERROR", detail="ZeroDivisionError: 0\nstack", batch=3, of_firing=True)
                ],
                "settle": "panekeeper settle c --job JOB.PY",
            },
            [
                "it takes rows until the watermark, now 2013-03-08T10:41:00Z, reaches 2013-03-08T12:00:00Z",
                "a firing of it could not be computed in batch 3: USER_ERROR, ZeroDivisionError: 0",
                (
                    "once the pane is closed, `panekeeper settle c --job JOB.PY --reason USER_ERROR` computes them "
                    "again with a corrected function"
                ),
            ],
        ),
        (
            {
                "held": None,
                "firings": [Firing(refinement=0, reason="FLUSH", is_final=True, batch=9)],
                "is_flushed": True,
            },
            ["it fired in batch 9: the job was flushed (FLUSH)", "a flush has closed it, with all other panes"],
        ),
        (
            {
                "held": None,
                "firings": [
                    Firing(refinement=0, reason="EARLY", is_final=False, batch=3, values={"n": 2, "worst": None}),
                    Firing(refinement=1, reason="LATE", is_final=True, batch=9, values={"all": "x\n" * 50, "n": 3}),
                    Firing(refinement=2, reason="SETTLED", is_final=True, rows=12, values={"n": 4}),
                ],
                "is_flushed": True,
            },
            [
                "it fired in batch 3 with n=2, worst=-: a rule for early firings (EARLY)",
                (
                    f"it fired in batch 9 with all={'x ' * 30}..., n=3: late rows had come, and the watermark advanced "
                    "(LATE)"
                ),
                "it fired with 12 result rows: rows that had come too late were settled (SETTLED)",
                "a flush has closed it, with all other panes",
            ],
        ),
        (
            {
                "held": None,
                "firings": [Firing(refinement=0, reason="WATERMARK", is_final=True, batch=2)],
                "watermark": ELEVEN + 2 * HOUR,
                "refused": [LATE] * 2,
                "unplaced": [NO_TIME] * 20,
                "settle": "panekeeper settle c --job JOB.PY",
            },
            [
                "it fired in batch 2: the watermark reached 2013-03-08T11:00:00Z",
                "it closed at the watermark 2013-03-08T12:00:00Z, and its rows are removed",
                (
                    "2 rows of 2013-03-08T10:59:00Z came too late in batch 4 and are in the quarantine: 2h behind the "
                    "watermark"
                ),
                "`panekeeper settle c --job JOB.PY --reason LATE` can add them",
                (
                    "of this partition, and no pane, 20 rows without an event time were refused in batch 3 and are in "
                    "the quarantine: NULL_EVENT_TIME"
                ),
            ],
        ),
        (
            {
                "held": None,
                "firings": [Firing(refinement=0, reason="WATERMARK", is_final=True, batch=2)],
                "watermark": ELEVEN + 2 * HOUR,
                "missed": {7: 2, 9: 1},
            },
            [
                "it fired in batch 2: the watermark reached 2013-03-08T11:00:00Z",
                "it closed at the watermark 2013-03-08T12:00:00Z, and its rows are removed",
                (
                    "3 times in batches 7 to 9 a row of some partition joined its later panes alone, as this one, or "
                    "one that overlaps it, was closed; the quarantine has no such row"
                ),
            ],
        ),
        (
            {"held": None, "watermark": ELEVEN + HOUR, "refused": [LATE]},
            [
                (
                    "it closed at the watermark 2013-03-08T12:00:00Z, which is now 2013-03-08T12:00:00Z, and takes no "
                    "more rows"
                ),
                "a row of 2013-03-08T10:59:00Z came too late in batch 4 and is in the quarantine: late",
                "they cannot be settled: that is for panes of event time with aggregates of all their rows",
            ],
        ),
        (
            {
                "held": None,
                "watermark": ELEVEN - 3 * HOUR,
                "sources": [SourceTime(name="the stream", reached=ELEVEN - 3 * HOUR, delay=HOUR)],
            },
            [
                (
                    "no row of it has come; it takes rows until the watermark, now 2013-03-08T08:00:00Z, reaches "
                    "2013-03-08T12:00:00Z"
                ),
                "it begins after the newest event time that has come, 2013-03-08T09:00:00Z",
            ],
        ),
        (
            {"held": None, "nearest": ["panes of this partition: 09:00"]},
            [
                (
                    "no row of it has come; it takes rows until the watermark, now 2013-03-08T10:41:00Z, reaches "
                    "2013-03-08T12:00:00Z"
                ),
                "panes of this partition: 09:00",
            ],
        ),
    ],
)
def test_the_reasons_have_the_arithmetic(changed: dict[str, Any], reasons: list[str]) -> None:
    """As far as the facts tell; what they do not tell is left out."""
    assert list(why_pane(facts(**changed)).reasons) == reasons


FIRED: dict[str, Any] = {
    "held": None,
    "firings": [
        Firing(refinement=0, reason="EARLY", is_final=False, batch=3),
        Firing(refinement=1, reason="WATERMARK", is_final=True, batch=12),
    ],
    "watermark": ELEVEN + 2 * HOUR,
    "watermarks": {11: ELEVEN - MINUTE, 12: ELEVEN + MINUTE},
    "sources": [SourceTime(name="the stream", reached=ELEVEN + 2 * HOUR, delay=10 * MINUTE)],
    "follows": True,
}
"""A pane that has fired early, and as complete in batch 12."""


@pytest.mark.parametrize(
    ("mover", "line"),
    [
        (
            Mover(time=ELEVEN + 11 * MINUTE, file="in/7.json", values={"sensor": "b", "offset": 4}),
            (
                "the row of batch 11 that has moved it: event time 2013-03-08T11:11:00Z in in/7.json "
                "(sensor=b offset=4); less the delay of 10m that is 2013-03-08T11:01:00Z, and the pane waited for "
                "2013-03-08T11:00:00Z"
            ),
        ),
        (Mover(), "batch 11 has no row with an event time any more, which has moved the watermark"),
        (Mover(unread="it is gone"), "which row has moved the watermark cannot be read again: it is gone"),
    ],
)
def test_the_row_that_has_moved_the_watermark_is_named_where_the_watermark_is(mover: Mover, line: str) -> None:
    """After the firing as complete, also of a pane that has fired early; or why it is not."""
    told = facts(**FIRED)
    assert passed_by(told) == Passed(batch=12, until=ELEVEN, watermark=ELEVEN + MINUTE, delay=10 * MINUTE)
    early, complete, *_ = before = why_pane(told).reasons
    assert (early[:21], complete[:22]) == ("it fired in batch 3: ", "it fired in batch 12: ")
    assert why_pane(facts(**FIRED, mover=mover)).reasons == (early, complete, line, *before[2:])


def test_no_row_has_moved_the_watermark_of_a_pane_that_waits_or_of_which_the_batch_is_not_known() -> None:
    """None is looked for then."""
    assert passed_by(facts()) is None
    assert passed_by(facts(**FIRED | {"watermarks": {}})) is None
    assert passed_by(facts(**FIRED | {"follows": False})) is None
