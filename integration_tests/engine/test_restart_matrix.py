"""Every kind of window through every way to stop and come back, on Spark, against the memory engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.engine.restart_matrix import KINDS, WAYS, StoppedRun, vector
from panekeeper.state.checkpoint.folder import LocalFolder
from panekeeper.state.checkpoint.layout import prepared_file
from panekeeper.state.checkpoint.run_record import last_batches
from panekeeper.testing import difference, play

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


ONE_WAY_EACH = set(zip(KINDS, cycle(way for way in WAYS if WAYS[way].stop != "kill"), strict=False))
"""What `make test` plays: each kind comes back in one way, each way is taken. A release plays all pairs."""


def after(data: bool) -> str:  # noqa: FBT001 -- of the matrix
    """What comes after the stop."""
    return "data" if data else "nothing"


def _case(kind: str, way: str, *, data: bool) -> Any:
    """One run. Those that were killed together are found by one process.

    Of the others, half of the kinds in a way go on, with data or without, in turn; after a kill all go on in one of the
    two. A release waits for all.
    """
    killed = WAYS[way].stop == "kill"
    marks = [pytest.mark.xdist_group(f"{way}-{after(data)}")] if killed else []
    if not data or (kind, way) not in ONE_WAY_EACH:
        in_turn = (list(KINDS).index(kind) + list(WAYS).index(way)) % 4 == data
        is_soon = data == WAYS[way].is_recorded if killed else in_turn
        marks.append(pytest.mark.extended if is_soon else pytest.mark.release)
    return pytest.param(kind, way, data, marks=marks, id=f"{kind}-{way}-{after(data)}-after")


CASES = [_case(kind, way, data=data) for kind in KINDS for way in WAYS for data in (True, False)]


@cache
def killed(way: str, after_it: str, root: Path) -> Path:
    """Return the folder of a run of every kind that a SIGKILL met in the midst of a batch."""
    root /= f"{way}-{after_it}"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-m", "integration_tests.engine.restart_matrix", str(root), way, after_it],
        env=os.environ | {"PYTHONPATH": path},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        timeout=900,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    return root


@pytest.mark.parametrize(("kind", "way", "data"), CASES)
def test_the_events_are_those_of_the_memory_engine(
    kind: str,
    way: str,
    data: bool,  # noqa: FBT001 -- of the matrix
    spark: SparkSession,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """None is lost, none comes twice, and what is overdue comes first, with or without data after the stop."""
    expected = play(vector(kind, WAYS[way], data=data))
    if WAYS[way].stop == "kill":
        folder = killed(way, after(data), tmp_path_factory.getbasetemp()) / kind
        run = StoppedRun(kind, WAYS[way], spark, folder, data=data)
        run.attach()
        checkpoint = LocalFolder(run.checkpoint)
        begun = last_batches(checkpoint)[0]
        assert begun is not None
        assert checkpoint.exists(prepared_file(0, begun)) == WAYS[way].is_recorded
    else:
        run = StoppedRun(kind, WAYS[way], spark, tmp_path, data=data)
        run.begin()
        run.stop()
    assert difference(expected, run.come_back()) is None
