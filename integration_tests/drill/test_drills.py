"""The reduced drills on real processes pass, and drills of a defective sink or store fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.selection import first_before_release
from panekeeper.recovery.drill.actions import Kill, Resume
from panekeeper.recovery.drill.process.launcher import environment
from panekeeper.recovery.drill.reduced_scenarios import REDUCED
from panekeeper.recovery.drill.runner import Drills
from panekeeper.recovery.drill.scenario import Scenario
from panekeeper.recovery.savepoint.create import savepoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.recovery.drill.faults.defects import Defect

LEFT_TO_RELEASES = {
    "a kill at every point, one after the other",
    "drained, then its workers are killed",
    "state is lost, savepoint and restore are cut short",
    "the object store fails, then it is slow",
    "paused in its commits, and restored by another process",
    "the volumes are missing, one after the other",
    "killed, an outage, and the clock goes back",
}
"""Each of their faults has a test of its own that continuous integration runs."""
NO_FAULT = Scenario(name="nothing happens", actions=(Resume(),), job_names=("tumbling-count", "time-interval"))
AFTER_DELTA = Scenario(
    name="killed",
    actions=(Kill("after Delta, before Spark's commit", batch=2), Resume()),
    job_names=("tumbling-count",),
)
JOB = """
from pathlib import Path
from panekeeper import Count, Tumbling, agg, session, windowed

here = Path(__file__).parent
spark = session("own", cores=1, **{"spark.sql.shuffle.partitions": 1})
rows = spark.readStream.schema("id bigint, sensor string").option("maxFilesPerTrigger", 1).json(str(here / "in"))
job = (
    windowed(rows, name="own", partition_by="sensor", key_groups=1)
    .window(Tumbling(Count(2)))
    .aggregate(total=agg.sum("id"))
    .to_delta(here / "production" / "log")
    .start(checkpoint=here / "production" / "checkpoint", trigger="available_now")
)
job.await_end()
"""


def test_a_drill_of_one_job_passes() -> None:
    """Killed after the offsets of a batch were logged and run again, it has the expected rows."""
    killed = Scenario(name="killed", actions=(Kill("after the offset log", batch=2), Resume()), job_names=("batched",))
    (result,) = Drills(scenarios=(killed,)).run()
    assert result.outcome == "passed", result.why


def _reduced(scenario: Scenario) -> Any:
    mark = pytest.mark.release if scenario.name in LEFT_TO_RELEASES else pytest.mark.extended
    return pytest.param(scenario, marks=mark, id=scenario.name)


@pytest.mark.parametrize("scenario", [_reduced(one) for one in REDUCED])
def test_every_reduced_scenario_passes(scenario: Scenario) -> None:
    """No row is lost, doubled or wrong, for each kind of window."""
    results = Drills(scenarios=(scenario,), reduced=True).run()
    skipped = [one.why for one in results if one.outcome == "skipped"]
    if skipped:
        pytest.skip(skipped[0])
    assert [one for one in results if one.outcome != "passed"] == []
    assert all(one.recover_seconds for one in results)


@pytest.mark.parametrize(
    ("defect", "scenario"),
    first_before_release(
        ("sink commits twice", AFTER_DELTA), ("sink skips a commit", NO_FAULT), ("store loses a batch", NO_FAULT)
    ),
)
def test_a_drill_finds_each_defect(defect: Defect, scenario: Scenario) -> None:
    """A sink that is not idempotent doubles rows; one that skips a commit or loses a batch loses some."""
    results = Drills(scenarios=(scenario,), defect=defect).run()
    assert {one.outcome for one in results} == {"failed"}
    for one in results:
        assert one.doubled if defect == "sink commits twice" else one.lost + one.wrong


@pytest.mark.extended
def test_a_fault_point_that_is_never_reached_makes_the_outcome_unknown() -> None:
    """The drill has shown nothing, however its tables look."""
    never = Scenario(name="never", actions=(Kill("after the offset log", batch=99), Resume()), job_names=("batched",))
    (result,) = Drills(scenarios=(never,)).run()
    assert result.outcome == "unknown"
    assert "should have been killed" in result.why


@pytest.mark.extended
def test_a_users_own_job_is_drilled_from_its_savepoint_in_a_scratch_folder(spark: SparkSession, tmp_path: Path) -> None:
    """Its own tables and checkpoint are not changed."""
    (tmp_path / "in").mkdir()
    (tmp_path / "job.py").write_text(JOB)
    _write(tmp_path / "in", range(2))
    assert subprocess.run([sys.executable, tmp_path / "job.py"], env=environment(), check=False).returncode == 0
    savepoint(tmp_path / "production" / "checkpoint", "newest", to=tmp_path / "saved", spark=spark)
    before = _contents(tmp_path / "production")

    _write(tmp_path / "in", range(2, 4))
    drills = Drills(job=tmp_path / "job.py", savepoint=(str(tmp_path / "saved"), "newest"), only="*two Delta commits*")
    (result,) = drills.run()
    assert (result.outcome, result.rows, result.why) == ("passed", 6, "")
    assert _contents(tmp_path / "production") == before


def _write(folder: Path, numbers: Iterable[int]) -> None:
    for number in numbers:
        lines = [f'{{"id": {number * 3 + row}, "sensor": "a"}}' for row in range(3)]
        (folder / f"{number}.json").write_text("\n".join(lines))
        os.utime(folder / f"{number}.json", (1_600_000_000 + number,) * 2)


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
