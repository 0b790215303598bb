"""How many panes are open: the same number whatever the key groups are, and that of the panes that are shown."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from panekeeper import Session, TimeInterval
from panekeeper.framework.core.inspection.open_work import open_work
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.panes.open_runs import Runs, count_open, runs_of
from panekeeper.framework.core.steps import BatchOutcome, Step, merge_outcomes
from panekeeper.state.store import MemoryStore
from tests.framework.core.inspection.test_open_panes import UNENDED, port_of
from tests.framework.core.panes.firings import rows, spec_of, watermark
from tests.framework.core.panes.test_firing_properties import batches_of, panes

NUMBERS = st.sets(st.integers(-20, 60), max_size=30)


@given(of_groups=st.lists(st.dictionaries(st.sampled_from(("", "hour")), NUMBERS, max_size=2), max_size=4))
def test_panes_of_several_key_groups_are_counted_as_a_set(of_groups: list[dict[str, set[int]]]) -> None:
    """For each window; what has no number counts by itself."""
    runs: list[dict[str, Runs]] = [{name: runs_of(own) for name, own in one.items() if own} for one in of_groups]
    numbers = [sum(map(len, one.values())) + 2 for one in of_groups]
    expected = {(name, number) for one in of_groups for name, own in one.items() for number in own}
    assert count_open(numbers, runs) == len(expected) + 2 * len(of_groups)


@given(declared=panes(), script=UNENDED)
def test_the_number_is_that_of_the_panes_that_are_shown(
    declared: dict[str, Any], script: list[tuple[Any, ...]]
) -> None:
    """With one key group for all partitions, and with one for each."""
    spec = spec_of(TimeInterval(**(declared | {"discard_age": 4})))
    counts = []
    for groups in (("abc",), ("a", "b", "c")):
        found: list[BatchOutcome] = []
        shown: set[tuple[int, int]] = set()
        for keys in groups:
            store = MemoryStore()
            own = [item for item in script if item[0] != "row" or item[1] in keys]
            outcomes = [KeyGroupRunner(spec, store).run(steps) for steps in batches_of(own)]
            found += outcomes[-1:]
            shown |= {(one["pane_start"], one["pane_end"]) for one in open_work(port_of(spec), store).to_pylist()}
        counts.append(count_open([one.open_panes for one in found], [one.open_runs for one in found]))
        assert counts[-1] == len(shown)
    assert counts[0] == counts[1]


def test_sessions_are_of_one_partition_each() -> None:
    """So those of the same times are several; and the panes of two ports are others, however they are numbered."""
    steps: list[Step] = [rows(("a", 1, 1), ("b", 1, 1)), watermark(2)]
    sessions = KeyGroupRunner(spec_of(Session(10)), MemoryStore()).run(steps)
    assert count_open([sessions.open_panes], [sessions.open_runs]) == 2
    spec = spec_of(TimeInterval(10))
    one = KeyGroupRunner(spec, MemoryStore()).run(steps)
    both = merge_outcomes(spec, [one, one])
    assert (one.open_runs, both.open_runs) == ({"": [[0, 0]]}, {"0": [[0, 0]], "1": [[0, 0]]})
    assert count_open([both.open_panes] * 3, [both.open_runs] * 3) == 2
