"""The one hook by which tests and drills reach into a batch: named steps, and a function that is called at each.

`hook` is None unless the program itself sets it: no setting and no environment variable does. No executor calls it.

The steps of a batch, in the order of the commit protocol (`framework/engine/job/batch_journal.py`):

    before-plan         Spark has logged the offsets, nothing has run
    before-prepare      the plan has run and its state is stored, nothing is recorded of what it writes
    before-delta        the batch is recorded, no table is written; the table is that which is committed first
    before-commit       a table is next, the lease was checked for it; in a thread for each table
    after-commit        that table is committed; in the same thread
    after-delta-commit  all tables are committed, Spark's commit log is not

Three more are no part of a batch, and their number is a step: `during-reset`, of `framework/engine/job/reset.py`;
`during-upgrade`, 1 before a changed declaration is recorded, 2 after it, 3 when a table has got its new columns;
`during-settlement`, 1 before the log has settled results, 2 after that, 3 when the view has them.
"""

from __future__ import annotations

from collections.abc import Callable

STEPS = ("before-plan", "before-prepare", "before-delta", "before-commit", "after-commit", "after-delta-commit")
"""Those of a batch."""

Hook = Callable[[str, int, str], None]
"""Is given the name of the step, the number of the batch, and the path of the table that the step is about, if any."""

hook: Hook | None = None


def fault_point(step: str, number: int, table: str = "") -> None:
    """Call the hook, if there is one, with the number of the batch, or of the step of what is no batch."""
    if hook is not None:
        hook(step, number, table)
