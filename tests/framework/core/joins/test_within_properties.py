"""Interval joins against a naive second implementation, on random rows, watermarks, micro-batches and key groups."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from panekeeper.framework.core.joins import kept_rows
from panekeeper.framework.declarations.joins import JoinKind, Within
from tests.framework.core.joins.join_batches import FLUSH, Groups, Item, cut, spec
from tests.model.interval_join import NaiveIntervalJoin

BOUNDS = st.tuples(st.integers(-3, 6), st.integers(-3, 6), st.integers(0, 4)).filter(lambda b: b[0] + b[1] >= 0)
HOW = st.sampled_from(["inner", "left", "right", "full"])


@st.composite
def inputs(draw: st.DrawFn) -> list[Item]:
    """Rows of both ports around a watermark that moves, each with a number of its own; a flush may come."""
    items: list[Item] = []
    now = 0
    for number in range(draw(st.integers(0, 22))):
        kind = draw(st.sampled_from("0011w"))
        if kind == "w":
            now += draw(st.integers(-2, 12))
            items.append(Item(None, now))
            continue
        key, time = draw(st.sampled_from(["a", "a", "b", None])), now + draw(st.integers(-8, 8))
        items.append(Item(int(kind), time, key, number, draw(st.sampled_from([0, 0, 1, None]))))
    if draw(st.integers(0, 3)) == 0:
        items.insert(draw(st.integers(0, len(items))), FLUSH)
    return items


def model_results(
    window: Within, how: JoinKind, items: list[Item], *, on_kind: bool
) -> tuple[list[list[Any]], list[Any]]:
    """The results of each item, and the numbers of late rows."""
    before, after, age = (n // 1_000_000 for n in (window.before_us, window.after_us, window.age_us))
    model = NaiveIntervalJoin(before, after, age, how)
    results: list[list[Any]] = []
    for item in items:
        if item.t is None:
            results.append(list(model.on_flush()))
        elif item.port is None:
            results.append(list(model.on_watermark(int(item.t))))
        else:
            equal = (item.key, item.kind) if on_kind else (item.key,)
            results.append(list(model.on_row((item.port, int(item.t), equal, item.v))))
    return results, model.late


@settings(deadline=None, max_examples=300)
@given(
    bounds=BOUNDS,
    how=HOW,
    items=inputs(),
    ends=st.sets(st.integers(1, 22)),
    groups=st.integers(1, 3),
    on_kind=st.booleans(),
    sizes=st.tuples(st.sampled_from([1_000_000, 3_000_000, 7_000_000]), st.sampled_from([1, 3, 16])),
)
def test_results_are_those_of_the_naive_join(
    bounds: tuple[int, int, int],
    how: JoinKind,
    items: list[Item],
    ends: set[int],
    groups: int,
    on_kind: bool,  # noqa: FBT001 -- a parameter of Hypothesis
    sizes: tuple[int, int],
) -> None:
    """Each micro-batch has the pairs and the rows without a match of its items, in whatever batches and key groups."""
    window = Within(bounds[0], bounds[1], discard_age=bounds[2])
    expected, late = model_results(window, how, items, on_kind=on_kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_rows, "_LEAST_US", sizes[0])
        patch.setattr(kept_rows, "_BLOCK", sizes[1])
        job, at, dropped = Groups(spec(window, how, on_kind=on_kind), groups), 0, 0
        for batch in cut(items, ends):
            found = Counter((row["a"], row["b"], row["reason"]) for row in job.run(batch))
            assert found == Counter(one for some in expected[at : at + len(batch)] for one in some)
            at, dropped = at + len(batch), dropped + len(job.late)
    assert dropped == len(late)
    if FLUSH in items:
        assert sum(one.kept_rows or 0 for one in job.last) == 0
        assert all({kind for kind, _, _ in store.entries} <= set() for store in job.stores)


@settings(deadline=None)
@given(
    bounds=BOUNDS,
    how=HOW,
    items=inputs(),
    least=st.sampled_from([1_000_000, 7_000_000]),
)
def test_nothing_goes_out_before_it_is_due(
    bounds: tuple[int, int, int], how: JoinKind, items: list[Item], least: int
) -> None:
    """So a job sleeps until then; and what is due is over once the watermark is there, so that it sleeps again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_rows, "_LEAST_US", least)
        job = Groups(spec(Within(bounds[0], bounds[1], discard_age=bounds[2]), how))
        job.run(items)
        while (due := job.last[0].due_watermark_us) is not None:
            assert job.run([Item(None, (due - 1) / 1_000_000)]) == []
            job.run([Item(None, due / 1_000_000)])
            after = job.last[0].due_watermark_us
            assert after is None or after > due
    assert [one.kept_rows for one in job.last] == [0]
    assert job.run([FLUSH]) == []
