"""What the tables of a user's own job hold after a run without a fault: the expected rows of its drills."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.recovery.drill.actions import Resume
from panekeeper.recovery.drill.expected.compare import TableUnreadable, delta_rows
from panekeeper.recovery.drill.faults.damage import FaultNotConfirmed
from panekeeper.recovery.drill.process.messages import USER_JOB
from panekeeper.recovery.drill.scenario import Scenario
from panekeeper.recovery.drill.scenario_run import ScenarioRun

if TYPE_CHECKING:
    from pathlib import Path

    from panekeeper.recovery.drill.drill_setup import DrillSetup
    from panekeeper.recovery.drill.expected.arrival_oracle import Tables

NOTHING_NEW = (
    "a run without any fault added no result to those of the savepoint: the sources hold nothing new, or too little "
    "for a window to fire, so a drill from there shows nothing"
)


@dataclass(frozen=True, kw_only=True)
class ReferenceTables:
    """The tables of the run without a fault.

    Attributes:
        tables: by role, their rows after the run.
        initial_tables: by role, the rows of the clone before the run; empty without a savepoint.
    """

    tables: Tables
    initial_tables: Tables

    @property
    def nothing_new_reason(self) -> str | None:
        """Why a drill would show nothing: the clone has the expected rows before any action. None if it has not."""
        if not self.initial_tables:
            return None  # the comparison reports tables without rows
        same = all(Counter(rows) == Counter(self.initial_tables.get(role, ())) for role, rows in self.tables.items())
        return NOTHING_NEW if same else None


def run_reference(setup: DrillSetup) -> ReferenceTables:
    """Run the user's own job once, without a fault.

    Args:
        setup: of a scenario run with that job.

    Raises:
        DeclarationError: the job fails without a fault, or its tables cannot be compared.
    """
    run = ScenarioRun(setup, Scenario(name="reference", actions=()))
    folder = run.jobs / USER_JOB
    try:
        run.run()  # makes the clone only
        _require_none_failed(run)
        initial_tables = _tables(folder)
        run.run_action(Resume())
        _require_none_failed(run)
        tables = _tables(folder)
    except FaultNotConfirmed as error:
        raise DeclarationError(f"{setup.job} cannot be drilled, since it fails without any fault: {error}") from error
    except TableUnreadable as error:
        raise DeclarationError(f"{setup.job} cannot be drilled, since its tables cannot be read: {error}") from error
    return ReferenceTables(tables=tables, initial_tables=initial_tables)


def _require_none_failed(run: ScenarioRun) -> None:
    if USER_JOB in run.launcher.failed:
        raise DeclarationError(f"{run.setup.job} fails without any fault: {run.launcher.failed[USER_JOB]}")


def _tables(folder: Path) -> Tables:
    return {role: delta_rows(folder / role) for role in ("log", "view") if (folder / role).exists()}
