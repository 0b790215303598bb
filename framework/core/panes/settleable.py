"""Of which windows can rows that came too late be settled (docs/semantics.md section 20)?

Of panes whose result is that of all their rows, whatever came before or elsewhere: it can be computed anew.
"""

from __future__ import annotations

from panekeeper.framework.declarations.joins import Within
from panekeeper.framework.declarations.windows import TimeInterval, Window


def against_settling(
    window: Window | Within, *, has_several_inputs: bool, has_aggregates: bool, has_groups: bool, has_dedupe: bool
) -> str | None:
    """Return what a job has of which rows cannot be settled, in words; None: they can be.

    Args:
        window: its window, or the join in its place.
        has_several_inputs: whether rows come from several streams.
        has_aggregates: whether there are aggregates alone, and no operator or handlers with state.
        has_groups: whether a firing has a row for each of its groups.
        has_dedupe: whether repeats are left out.
    """
    what = None
    if has_several_inputs:
        what = "several inputs"
    elif not isinstance(window, TimeInterval):
        what = f"a window of the kind {type(window).__name__}"
    elif not has_aggregates:
        what = "an operator, or handlers with state"
    elif has_groups:
        what = "a row for each group in a firing"
    elif has_dedupe:
        what = "dedupe=, by which rows of other panes decide what counts"
    elif window.results != "accumulating":
        what = f"results={window.results!r}"
    else:
        given = {name: getattr(window, name) for name in ("fires_when", "then", "fill")}
        what = next((f"{name}={value!r}" for name, value in given.items() if value is not None), None)
    return what
