"""Runs drills, one scenario after the other, and compares the tables of each job. A drill: one job in one scenario."""

from __future__ import annotations

import fnmatch
import re
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from integration_tests.drills.drill_setup import DrillSetup
from integration_tests.drills.expected.compare import ComparisonResult, DrillOutcome, compare_tables
from integration_tests.drills.faults.damage import FaultNotConfirmed, ScenarioNotSupported
from integration_tests.drills.faults.faulty_s3 import FaultyStore
from integration_tests.drills.jobs import DRILL_JOBS, drill_job
from integration_tests.drills.scenario import Scenario
from integration_tests.drills.scenario_run import ScenarioRun
from integration_tests.drills.scenarios import SCENARIOS
from panekeeper.framework.declarations.errors import DeclarationError

if TYPE_CHECKING:
    from integration_tests.drills.faults.defects import Defect


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one drill.

    Attributes:
        scenario: its name.
        check: name of the job.
        outcome: passed, failed, unknown (the tables cannot be compared, or it is not confirmed that a fault hit this
            job), skipped (this host lacks what the scenario needs) or not run.
        lost: number of result rows that are missing.
        doubled: number of result rows that are there too often.
        wrong: number of result rows that should not be there.
        rows: number of expected rows.
        recover_seconds: from the start of the last process to its first batch in the tables; None if there was none.
        first_result_seconds: from that start to its first results; None if there were none.
        why: reasons and remarks.
    """

    scenario: str
    check: str
    outcome: DrillOutcome
    lost: int = 0
    doubled: int = 0
    wrong: int = 0
    rows: int = 0
    recover_seconds: float | None = None
    first_result_seconds: float | None = None
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class ScenarioGroup:
    """One scenario and the jobs that run it together, in one process."""

    scenario: Scenario
    job_names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Drills:
    """Which drills to run, and how.

    Attributes:
        seed: of the input and of random kills.
        only: a part of `scenario x job`, or a pattern with `*`; None for all.
        defect: a defect to inject, to test that drills find it.
        scenarios: the matrix, or a part of it.
        keep_folder: keep all inputs, tables, checkpoints and logs in this new folder; None to remove them.
        on_result: called after each scenario with its results.
    """

    seed: int = 1
    only: str | None = None
    defect: Defect | None = None
    scenarios: tuple[Scenario, ...] = SCENARIOS
    keep_folder: Path | None = None
    on_result: Callable[[list[Result]], None] = field(default=lambda _: None)

    def run(self) -> list[Result]:
        """Run the drills and return their results.

        Raises:
            DeclarationError: no drill has that name.
        """
        groups = self.groups()
        results: list[Result] = []
        with ExitStack() as cleanup:
            top = self._top(cleanup)
            provider = _FaultyStoreProvider(cleanup)
            for group in groups:
                found = self._run_group(group, top, provider)
                self.on_result(found)
                results += found
        return results

    def groups(self) -> list[ScenarioGroup]:
        """Return the drills, in the order in which they run.

        Raises:
            DeclarationError: no drill has that name.
        """
        found = [ScenarioGroup(scenario=one, job_names=_jobs_for(one)) for one in self.scenarios]
        chosen = [group for one in found if (group := self._chosen(one)).job_names]
        if not chosen:
            raise DeclarationError(f"no drill is called {self.only!r}; --list names them all")
        return chosen

    def _chosen(self, group: ScenarioGroup) -> ScenarioGroup:
        if self.only is None:
            return group
        pattern = self.only if "*" in self.only else f"*{self.only}*"
        names = [name for name in group.job_names if fnmatch.fnmatch(f"{group.scenario.name} x {name}", pattern)]
        return ScenarioGroup(scenario=group.scenario, job_names=tuple(names))

    def _top(self, cleanup: ExitStack) -> Path:
        if self.keep_folder is not None:
            self.keep_folder.mkdir(parents=True)
            return self.keep_folder
        return Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="panekeeper-drill-")))

    def _setup(self, folder: Path, job_names: tuple[str, ...], provider: _FaultyStoreProvider) -> DrillSetup:
        return DrillSetup(
            folder=folder,
            job_names=job_names,
            seed=self.seed,
            defect=self.defect,
            store=lambda: provider.store,
        )

    def _run_group(self, group: ScenarioGroup, top: Path, provider: _FaultyStoreProvider) -> list[Result]:
        folder = top / re.sub(r"\W+", "-", group.scenario.name).strip("-")
        run = ScenarioRun(self._setup(folder, group.job_names, provider), group.scenario)
        try:
            run.run()
        except ScenarioNotSupported as error:
            return _all(group, "skipped", str(error))
        except Exception as error:  # noqa: BLE001 -- after any error of the drill itself its outcome is unknown
            why = str(error) if isinstance(error, FaultNotConfirmed) else f"{type(error).__name__}: {error}"
            return [_keep_failure(one, run) for one in _all(group, "unknown", why)]
        return [self._result(name, run) for name in group.job_names]

    def _result(self, name: str, run: ScenarioRun) -> Result:
        found = _compare(name, run)
        failed, not_hit = run.launcher.failed.get(name), run.not_hit.get(name)
        outcome: DrillOutcome = "unknown" if not_hit and found.outcome == "passed" else found.outcome
        return Result(
            scenario=run.scenario.name,
            check=name,
            outcome="failed" if failed else outcome,
            lost=found.lost,
            doubled=found.doubled,
            wrong=found.wrong,
            rows=found.rows,
            recover_seconds=run.launcher.recovered.get(name),
            first_result_seconds=run.launcher.first_result.get(name),
            why="; ".join(filter(None, [failed, found.why, not_hit, *run.notes])),
        )


class _FaultyStoreProvider:
    """Starts an S3 store when it is first used, and closes it with the drills."""

    def __init__(self, cleanup: ExitStack) -> None:
        self._cleanup = cleanup

    @cached_property
    def store(self) -> FaultyStore:
        made = FaultyStore()
        self._cleanup.callback(made.close)
        return made


def _jobs_for(scenario: Scenario) -> tuple[str, ...]:
    fitting = (job.name for job in DRILL_JOBS if job.uses_wall_clock == scenario.uses_wall_clock)
    return scenario.job_names or tuple(fitting)


def _compare(name: str, run: ScenarioRun) -> ComparisonResult:
    job = drill_job(name)
    try:
        expected = job.oracle()(run.history_of(name))
    except Exception as error:  # noqa: BLE001 -- an error of the oracle says nothing about the job
        return ComparisonResult(outcome="unknown", why=f"the oracle failed: {type(error).__name__}: {error}")
    return compare_tables(run.jobs / name, expected, job.tables)


def _all(group: ScenarioGroup, outcome: DrillOutcome, why: str) -> list[Result]:
    return [Result(scenario=group.scenario.name, check=name, outcome=outcome, why=why) for name in group.job_names]


def _keep_failure(result: Result, run: ScenarioRun) -> Result:
    """Return a failed result for a job that is known to have failed, whatever else went wrong."""
    failed = run.launcher.failed.get(result.check)
    if failed is None:
        return result
    return Result(scenario=result.scenario, check=result.check, outcome="failed", why=f"{failed}; {result.why}")
