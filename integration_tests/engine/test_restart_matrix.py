"""Every way to stop and come back, on Spark, with several kinds of windows at once, against the memory engine.

That every kind goes through every way is shown in memory: `tests/framework/testing/test_restart_stories.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.drills.faults.evidence import epoch_of
from integration_tests.engine.restart_matrix import StoppedRun
from integration_tests.engine.restart_stories import WAYS, events_in_memory, kinds_of, story, with_data
from panekeeper.state.checkpoint.folder import prepared_file
from panekeeper.state.checkpoint.job_record import last_batches
from panekeeper.testing import difference

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


SOON = {"clean-stop", "kill-9", "kill-9-recorded"}
"""A clock, a drain and a reset are tested by themselves as well."""


def _case(way: str, half: int) -> Any:
    is_soon = way in SOON and not half
    name = f"{way}-{('', 'other ')[half]}half"
    return pytest.param(way, half, marks=[] if is_soon else pytest.mark.release, id=name)


CASES = [_case(way, half) for half in (0, 1) for way in WAYS]


def kill(way: str, half: int, root: Path) -> None:
    """Leave in a folder a run of each of these kinds that a SIGKILL met in the midst of a batch."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-m", "integration_tests.engine.restart_matrix", str(root), way, str(half)],
        env=os.environ | {"PYTHONPATH": path},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        timeout=900,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("way", "half"), CASES)
def test_the_events_are_those_of_the_memory_engine(way: str, half: int, spark: SparkSession, tmp_path: Path) -> None:
    """None is lost, none comes twice, and what is overdue comes first, with or without data after the stop."""
    kinds = kinds_of(way, half)
    if WAYS[way].stop == "kill":
        kill(way, half, tmp_path)

    def events(kind: str) -> list[dict[str, Any]]:
        (tmp_path / kind).mkdir(exist_ok=True)
        run = StoppedRun(kind, WAYS[way], spark, tmp_path / kind, data=with_data(kind, way))
        if WAYS[way].stop == "kill":
            run.attach()
            checkpoint = epoch_of(run.checkpoint)
            begun, _ = last_batches(checkpoint)
            assert begun is not None
            assert checkpoint.exists(prepared_file(0, begun)) == WAYS[way].is_recorded
        else:
            run.begin()
            run.stop()
        return run.come_back()

    with ThreadPoolExecutor() as pool:
        found = dict(zip(kinds, pool.map(events, kinds), strict=True))
    expected = {kind: events_in_memory(story(kind, WAYS[way], data=with_data(kind, way))) for kind in kinds}
    assert {kind: wrong for kind in kinds if (wrong := difference(expected[kind], found[kind]))} == {}
