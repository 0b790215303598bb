"""Runs drills, one scenario after the other, and has each job judged. A drill = a check x a scenario."""

from __future__ import annotations

import fnmatch
import re
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from framework.declarations.errors import DeclarationError
from recovery.drill.expected.compare import Outcome, Verdict, judge
from recovery.drill.faults.damage import CannotDrill, Missed
from recovery.drill.faults.faulty_s3 import FaultyStore
from recovery.drill.jobs import CHECKS, Compared, named
from recovery.drill.process.messages import OWN, Broken
from recovery.drill.reference import Reference, run_reference
from recovery.drill.scenario_run import Attempt, Bench
from recovery.drill.scenarios import REDUCED, SCENARIOS, Scenario


@dataclass(frozen=True, kw_only=True)
class Result:
    """How one drill went.

    Attributes:
        scenario: what was done.
        check: to which job.
        outcome: passed, failed, unknown (the judge cannot tell, or a fault may have missed this job), skipped (the
            machine lacks something) or not run.
        lost: result rows that are missing.
        doubled: result rows that are there more than once.
        wrong: result rows that should not be there.
        rows: how many there should be.
        recover_seconds: from the start of the last process to the first batch in the tables; None if there was none.
        first_result_seconds: from there to the first results; None if that run had none.
        why: in words.
    """

    scenario: str
    check: str
    outcome: Outcome
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    rows: int = 0
    recover_seconds: float | None = None
    first_result_seconds: float | None = None
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Outing:
    """One scenario, and the checks that meet it together, in one process."""

    scenario: Scenario
    checks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Drills:
    """What to drill.

    Attributes:
        seed: of the input and of random kills.
        only: a part of `scenario x check`, or a pattern with `*`; all if not given.
        reduced: fewer scenarios, with several faults in a row: minutes instead of an hour.
        budget_seconds: no scenario is begun after so long.
        job: drill this job file instead of the built-in checks.
        savepoint: (location, name) of which that job begins as a clone.
        endpoint: of the S3 where that savepoint is.
        broken: what is wrong with the product, on purpose; only to see that drills notice.
        scenarios: of one's own, in place of those of the matrix.
        keep: a folder in which everything is kept; else it is removed.
        told: called after each scenario with its results.
    """

    seed: int = 1
    only: str | None = None
    reduced: bool = False
    budget_seconds: float | None = None
    job: Path | None = None
    savepoint: tuple[str, str] | None = None
    endpoint: str | None = None
    broken: Broken | None = None
    scenarios: tuple[Scenario, ...] = ()
    keep: Path | None = None
    told: Callable[[list[Result]], None] = field(default=lambda _: None)

    def run(self) -> list[Result]:
        """Run all of them.

        Raises:
            DeclarationError: there is nothing of that name.
        """
        outings = self.outings()
        began = time.monotonic()
        results: list[Result] = []
        with ExitStack() as tidy:
            top = self._top(tidy)
            lender = _Lender(tidy)
            reference = self._reference(top, lender)
            idle = None if reference is None else reference.why_idle
            for outing in outings:
                if self.budget_seconds is not None and time.monotonic() - began > self.budget_seconds:
                    found = _all(outing, "not run", "the budget was spent")
                elif idle is not None:
                    found = _all(outing, "unknown", idle)
                else:
                    found = self._one(outing, top, lender, reference)
                self.told(found)
                results += found
        return results

    def outings(self) -> list[Outing]:
        """Return the drills, in order. Raises `DeclarationError` if there are none."""
        if self.savepoint is not None and self.job is None:
            raise DeclarationError("a savepoint is drilled with the job that made it: give its file, too (--job FILE)")
        if self.job is not None:
            found = [Outing(scenario=one, checks=(OWN,)) for one in self._scenarios() if one.own]
        else:
            found = [Outing(scenario=one, checks=_checks_for(one)) for one in self._scenarios()]
        chosen = [outing for one in found if (outing := self._chosen(one)).checks]
        if not chosen:
            raise DeclarationError(f"no drill is called {self.only!r}; --list names them all")
        return chosen

    def _scenarios(self) -> tuple[Scenario, ...]:
        return self.scenarios or (REDUCED if self.reduced else SCENARIOS)

    def _chosen(self, outing: Outing) -> Outing:
        if self.only is None:
            return outing
        pattern = self.only if "*" in self.only else f"*{self.only}*"
        names = [check for check in outing.checks if fnmatch.fnmatch(f"{outing.scenario.name} x {check}", pattern)]
        return Outing(scenario=outing.scenario, checks=tuple(names))

    def _top(self, tidy: ExitStack) -> Path:
        if self.keep is not None:
            self.keep.mkdir(parents=True)
            return self.keep
        return Path(tidy.enter_context(tempfile.TemporaryDirectory(prefix="panekeeper-drill-")))

    def _bench(self, folder: Path, checks: tuple[str, ...], lender: _Lender) -> Bench:
        return Bench(
            folder=folder,
            checks=checks,
            seed=self.seed,
            job=self.job,
            savepoint=self.savepoint,
            endpoint=self.endpoint,
            broken=self.broken,
            store=lambda: lender.store,
            seconds=3.0 if self.reduced else 10.0,
        )

    def _one(self, outing: Outing, top: Path, lender: _Lender, reference: Reference | None) -> list[Result]:
        folder = top / re.sub(r"\W+", "-", outing.scenario.name).strip("-")
        attempt = Attempt(self._bench(folder, outing.checks, lender), outing.scenario)
        try:
            attempt.perform()
        except CannotDrill as error:
            return _all(outing, "skipped", str(error))
        except Exception as error:  # noqa: BLE001 -- a drill that breaks has shown nothing, whatever broke it
            told = str(error) if isinstance(error, Missed) else f"{type(error).__name__}: {error}"
            return [_failed_or(one, attempt) for one in _all(outing, "unknown", told)]
        return [self._judged(name, attempt, reference) for name in outing.checks]

    def _judged(self, name: str, attempt: Attempt, reference: Reference | None) -> Result:
        verdict = _verdict(name, attempt, reference)
        failed, missed = attempt.launcher.failed.get(name), attempt.missed.get(name)
        unshown: Outcome = "unknown" if missed and verdict.outcome == "passed" else verdict.outcome
        return Result(
            scenario=attempt.scenario.name,
            check=name,
            outcome="failed" if failed else unshown,
            lost=verdict.lost,
            doubled=verdict.doubled,
            wrong=verdict.wrong,
            rows=verdict.rows,
            recover_seconds=attempt.launcher.recovered.get(name),
            first_result_seconds=attempt.launcher.first_result.get(name),
            why="; ".join(filter(None, [failed, verdict.why, missed, *attempt.notes])),
        )

    def _reference(self, top: Path, lender: _Lender) -> Reference | None:
        return run_reference(self._bench(top / "reference", (OWN,), lender)) if self.job is not None else None


class _Lender:
    """Starts a faulty store once somebody needs it."""

    def __init__(self, tidy: ExitStack) -> None:
        self._tidy = tidy

    @cached_property
    def store(self) -> FaultyStore:
        """The store; it is shut down with the drills."""
        made = FaultyStore()
        self._tidy.callback(made.close)
        return made


def _checks_for(scenario: Scenario) -> tuple[str, ...]:
    return scenario.checks or tuple(check.name for check in CHECKS if check.clocked == scenario.clocked)


def _verdict(name: str, attempt: Attempt, reference: Reference | None) -> Verdict:
    if reference is not None:
        compared = {role: Compared(columns=None, identity=0) for role in reference.tables}
        return judge(attempt.jobs / name, reference.tables, compared)
    check = named(name)
    try:
        expected = check.oracle()(tuple(attempt.history))
    except Exception as error:  # noqa: BLE001 -- an oracle that breaks must not pass anything
        return Verdict(outcome="unknown", why=f"the oracle could not tell: {type(error).__name__}: {error}")
    return judge(attempt.jobs / name, expected, check.tables)


def _all(outing: Outing, outcome: Outcome, why: str) -> list[Result]:
    return [Result(scenario=outing.scenario.name, check=name, outcome=outcome, why=why) for name in outing.checks]


def _failed_or(result: Result, attempt: Attempt) -> Result:
    """What is known to have failed stays failed, whatever else went wrong."""
    failed = attempt.launcher.failed.get(result.check)
    if failed is None:
        return result
    return Result(scenario=result.scenario, check=result.check, outcome="failed", why=f"{failed}; {result.why}")
