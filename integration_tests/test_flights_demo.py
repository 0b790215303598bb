"""The main demo, killed again and again: its tables must equal those of an undisturbed run."""

import os
import random
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("duckdb", reason="the demo needs the extra panekeeper[demo]")

from examples.flights.tables import LOG, QUARANTINE, VIEW, read_table

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("flights")]

ROOT = Path(__file__).resolve().parents[1]
DAYS = 3
TABLES = (LOG, VIEW, QUARANTINE)


@dataclass
class Demo:
    """One run of the demo as its own process, with the lines that it printed."""

    process: "subprocess.Popen[str]"
    lines: list[str]

    @classmethod
    def begin(cls, out: Path) -> "Demo":
        """Start (or resume) the demo in a folder."""
        command = [sys.executable, "-m", "examples.flights", "--days", str(DAYS), "--out", str(out)]
        process = subprocess.Popen(
            command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        return cls(process, [])

    def reach(self, pattern: str) -> bool:
        """Read until a line matches; return False if the run ends before."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if re.search(pattern, line):
                return True
        return False

    def end(self) -> int:
        """Read to the end and return the exit code."""
        self.reach(r"(?!)")
        return self.process.wait(timeout=60)

    def kill(self, *, after: float, with_java: bool) -> None:
        """Kill -9 the demo, with or without its Java process, `after` so many seconds unless it ends before."""
        try:
            self.process.wait(timeout=after)
        except subprocess.TimeoutExpired:
            if with_java:
                os.killpg(self.process.pid, signal.SIGKILL)  # the session that `begin` made for it
            else:
                self.process.kill()
        self.process.wait(timeout=60)
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def output(self) -> str:
        """All it has printed."""
        return "".join(self.lines)


OF_THE_RUN = {"source", "quarantined_at"}
"""Columns of the quarantine that name the folder and the time of a run."""


def content(out: Path) -> dict[str, list[dict[str, object]]]:
    """All rows of all tables, sorted, without what differs from run to run."""
    tables = {name: read_table(out / name) for name in TABLES}
    return {
        name: _sorted_rows(rows.drop_columns([*OF_THE_RUN & {*rows.column_names}])) for name, rows in tables.items()
    }


def _sorted_rows(table: pa.Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table.to_pylist()
    return sorted(rows, key=repr)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run from beginning to end."""
    out = tmp_path_factory.mktemp("undisturbed") / "demo"
    demo = Demo.begin(out)
    assert demo.end() == 0, demo.output
    return out


def test_demo_checks_itself_and_shows_a_finished_run_at_once(undisturbed: Path) -> None:
    """A second start on a finished run replays nothing, and its comparison has the same outcome."""
    again = Demo.begin(undisturbed)
    assert again.end() == 0, again.output
    assert "starting Spark" not in again.output
    assert "every row equals" in again.output
    assert (undisturbed / "worst_day.png").stat().st_size > 50_000


@pytest.mark.release  # other jobs are killed at every step, and this one in its demo
def test_tables_are_the_same_after_any_kills(tmp_path: Path, undisturbed: Path) -> None:
    """Killed four times at random moments, at the start, between and inside batches, it ends with the same rows."""
    out, rng = tmp_path / "demo", random.Random(1)
    for _ in range(4):
        demo = Demo.begin(out)
        demo.reach(rng.choice([r"starting Spark", r"^batch 1 ", r"^batch \d+", r"^batch \d*[37] of", r"^batch 16 "]))
        demo.kill(after=rng.uniform(0, 3), with_java=rng.random() < 0.5)
    last = Demo.begin(out)
    assert last.end() == 0, last.output
    assert content(out) == content(undisturbed)


@pytest.mark.release  # Ctrl-C is tested on another job, and this one is killed
def test_ctrl_c_stops_between_batches_and_the_next_run_resumes(tmp_path: Path, undisturbed: Path) -> None:
    """Interrupted, the demo ends its running batch, prints which, and resumes there when started again."""
    out = tmp_path / "demo"
    demo = Demo.begin(out)
    assert demo.reach(r"^batch 3 of"), demo.output
    demo.process.send_signal(signal.SIGINT)
    assert demo.end() == 130, demo.output
    assert re.search(r"stopped after batch \d+", demo.output), demo.output
    resumed = Demo.begin(out)
    assert resumed.end() == 0, resumed.output
    assert re.search(r"resuming at batch \d+ of \d+", resumed.output), resumed.output
    assert content(out) == content(undisturbed)
