"""The job of a user's test on Spark: it is started in folders of its own, gets rows, is killed and started again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import DeclarationError, PanekeeperError
from panekeeper.framework.engine.session.columns import arrow_schema
from panekeeper.framework.engine.sink import fault_points
from panekeeper.framework.testing.batch_files import BatchFiles, session_of_one_group
from panekeeper.framework.testing.results import Results
from panekeeper.framework.testing.run import columns_of
from panekeeper.framework.testing.run_on_spark import read_results
from panekeeper.framework.testing.script import rows_table

if TYPE_CHECKING:
    from panekeeper.framework.builder.outputs import Computation
    from panekeeper.framework.engine.job.job import Job


class _Killed(Exception):
    """The batch ends here."""


class StartedJob:
    """A job on files that a test writes. Made by the fixture `spark_job`.

    Attributes:
        spark: its Spark session, which shares all but settings with that of the process.
        folder: has the folders `input`, `log` with the tables beside it, and `checkpoint`.
        job: the running job, as `start()` returns it.
    """

    job: Job

    def __init__(self, declare: Callable[..., Any], schema: Any, folder: Path, *, allow_errors: bool = False) -> None:
        """Declare the job on a stream of rows.

        Args:
            declare: takes the streaming DataFrame and returns the computation, as `.aggregate(...)` does.
            schema: the columns of the rows, as `run` takes them.
            folder: an empty one.
            allow_errors: whether a function of the user's may raise; if not, `rows` do.

        Raises:
            DeclarationError: what `declare` raises, or a schema that is none.
        """
        columns = columns_of(schema, "spark_job")
        self.folder, self._schema = folder, arrow_schema(columns)
        self._allow_errors = allow_errors
        self.spark = session_of_one_group()
        self._input = BatchFiles(folder / "input", columns)
        self._computation: Computation = declare(self._input.stream(self.spark))

    def start(self) -> None:
        """Start the job on its checkpoint, or resume it there."""
        declared = self._computation.to_delta(self.folder / "log")
        self.job = declared.start(checkpoint=self.folder / "checkpoint")

    def stop(self) -> None:
        """End the job after the running batch, if it runs."""
        if self.job.running:
            self.job.stop()

    def add(self, *batches: Sequence[Any]) -> None:
        """Let the job process rows, each list as a micro-batch of its own, and return when it has.

        Raises:
            DeclarationError: a row that does not fit the schema.
            PanekeeperError: the job failed.
        """
        for rows in batches:
            self._input.write(rows_table(rows, self._schema, f"batch {len(self._input.written)}"))
        self.job.process_available()

    def kill_and_restart(self, rows: Any = (), *, at: str = "before-prepare") -> None:
        """Add rows whose batch ends abruptly, start the job again, and return when it has processed them.

        The batch raises an error that nothing handles, so the checkpoint and the tables are what a killed process
        leaves there. The process and its Spark session go on: `panekeeper drill` kills them, too (docs/drills.md).

        Args:
            rows: of the batch; it may be without.
            at: where it ends, a step of the commit protocol. `"before-plan"`: nothing is computed.
                `"before-prepare"`: all is computed, and will be again. `"before-delta"`: what it writes is recorded.
                `"before-commit"`, `"after-commit"`: before or after the commit of a table. `"after-delta-commit"`: all
                tables are committed, and Spark does not know.

        Raises:
            DeclarationError: no such step.
            AssertionError: the batch did not come to it.
            PanekeeperError: the job failed, or cannot be started again.
        """
        if at not in fault_points.STEPS:
            raise DeclarationError(f"at is {at!r}; a batch can be killed {', '.join(fault_points.STEPS)}")
        killed = False

        def kill(step: str, number: int, _: str) -> None:
            nonlocal killed
            if step == at and not killed:
                killed = True
                raise _Killed(f"killed {at} of batch {number}")

        before, fault_points.hook = fault_points.hook, kill
        try:
            self.add(rows)
        except PanekeeperError:
            if not killed:
                raise
        finally:
            fault_points.hook = before
        if not killed:
            raise AssertionError(f"no batch came to {at}, so the job was not killed")
        self.start()
        self.job.process_available()

    @property
    def rows(self) -> Results:
        """The rows of the log, in order, with those of the quarantine, as `run` returns them.

        Raises:
            AssertionError: a function of the user's raised in a batch, and not `allow_errors`.
        """
        results = read_results(self.folder / "log", self._computation._pipeline.spec)  # noqa: SLF001 -- of the framework
        if not self._allow_errors:
            results.require_no_user_error()
        return results
