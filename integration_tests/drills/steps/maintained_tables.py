"""Compacts, vacuums and alters the tables of some jobs, beside them or while they are stopped."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from integration_tests.drills.faults.maintenance import missing_operations, operations

if TYPE_CHECKING:
    from integration_tests.drills.actions import Maintain
    from integration_tests.drills.process.launcher import Launcher


def maintain_tables(launcher: Launcher, jobs: Path, names: Iterable[str], action: Maintain) -> dict[str, str]:
    """Run the statements of an action, and return, by job, why it is not confirmed that they changed its log.

    Args:
        launcher: starts the program.
        jobs: has a folder for each job.
        names: of the jobs.
        action: which statements, and when.
    """
    folders = {name: jobs / name for name in names}
    before = {name: operations(folder) for name, folder in folders.items()}
    if action.beside is None:
        launcher.run(do="maintain", statements=action.statements)
    else:
        launcher.run(do="run", statements=action.statements, point="before-delta", batch=action.beside)
    missing = {name: missing_operations(before[name], operations(folders[name]), action.statements) for name in folders}
    return {name: f"the log has no commit of {', '.join(some)}" for name, some in missing.items() if some}
