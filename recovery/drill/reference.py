"""What the tables of a user's own job hold after a run without a fault: what is right for all the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from framework.declarations.errors import DeclarationError
from recovery.drill.actions import Resume
from recovery.drill.expected.compare import Unreadable, delta_rows
from recovery.drill.faults.damage import Missed
from recovery.drill.process.messages import OWN
from recovery.drill.scenario_run import Attempt
from recovery.drill.scenarios import Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from recovery.drill.expected.arrival_oracle import Tables
    from recovery.drill.scenario_run import Bench

NOTHING_NEW = (
    "a run without any fault added no result to those of the savepoint: the sources hold nothing new, or too little "
    "for a window to fire, so a drill from there shows nothing"
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The right answer.

    Attributes:
        tables: what the tables hold.
        begun_with: what the clone of a savepoint held before the run; nothing without a savepoint.
    """

    tables: Tables
    begun_with: Tables

    @property
    def why_idle(self) -> str | None:
        """Why no drill can show anything: the clone's tables are the right answer before anything is done."""
        if not self.begun_with:
            return None  # the judge says what is to be said of tables that stay empty
        same = all(Counter(rows) == Counter(self.begun_with.get(role, ())) for role, rows in self.tables.items())
        return NOTHING_NEW if same else None


def run_reference(bench: Bench) -> Reference:
    """Run the user's own job once, without a fault.

    Raises:
        DeclarationError: it fails all the same, or nobody could judge its tables.
    """
    attempt = Attempt(bench, Scenario(name="reference", actions=()))
    folder = attempt.jobs / OWN
    try:
        attempt.perform()  # nothing yet but the clone
        _require_none_failed(attempt)
        begun_with = _tables(folder)
        attempt.act(Resume())
        _require_none_failed(attempt)
        tables = _tables(folder)
    except Missed as error:
        raise DeclarationError(f"{bench.job} cannot be drilled, for it fails without any fault: {error}") from error
    except Unreadable as error:
        raise DeclarationError(f"{bench.job} cannot be drilled, for nobody could judge it: {error}") from error
    return Reference(tables=tables, begun_with=begun_with)


def _require_none_failed(attempt: Attempt) -> None:
    if OWN in attempt.launcher.failed:
        raise DeclarationError(f"{attempt.bench.job} fails without any fault: {attempt.launcher.failed[OWN]}")


def _tables(folder: Path) -> Tables:
    return {role: delta_rows(folder / role) for role in ("log", "view") if (folder / role).exists()}
