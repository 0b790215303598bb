"""Our contender of a commit and of the work tree, in turns: `python -m benchmarks --against COMMIT`.

Each side is a process of its own with a Spark session of its own, on the same input files, with the same Python and the
packages that are installed for it. The commit is checked out in a temporary work tree of git, which is removed in the
end. While one side runs, the other one waits.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import IO

from benchmarks.contenders import TimedBatch
from benchmarks.measure import BenchmarkRun, Mismatch, Print, Throughput, round_text
from benchmarks.processes import KINDS
from benchmarks.processor import processor_time
from benchmarks.report import in_columns

WORK_TREE = "work tree"
_PROGRAM = Path(__file__).with_name("one_side.py")
_ROOT = Path(__file__).parent.parent
_END_SECONDS = 60.0


class CannotCompare(Exception):
    """There is no such commit, or the benchmarks of a tree cannot be run. Its text is one line."""


class Side:
    """The process that runs the contenders of one tree."""

    def __init__(self, name: str, tree: Path, runs: Path) -> None:
        self.name = name
        self.log = runs.with_suffix(".log")
        runs.parent.mkdir(parents=True, exist_ok=True)
        paths = [str(tree), *filter(None, [os.environ.get("PYTHONPATH")])]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                # Without -P, the folder of the program would be searched before the packages of the tree.
                [sys.executable, "-P", str(_PROGRAM), str(tree), str(runs)],
                cwd=tree,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._workloads: list[str] | None = None

    @property
    def pid(self) -> int:
        """The id of its process, which is the driver of its runs."""
        return self._process.pid

    @property
    def workloads(self) -> list[str]:
        """The workloads of its tree. Raises `CannotCompare`."""
        if self._workloads is None:
            self._workloads = json.loads(self._answer())
        return self._workloads

    def measure(self, workload: str, run: BenchmarkRun) -> list[TimedBatch]:
        """Run a workload over an input and return its batches. Raises `CannotCompare`."""
        given = asdict(run.given) | {"folder": str(run.given.folder.absolute())}
        assert self._process.stdin is not None
        try:
            print(json.dumps({"workload": workload, "given": given}), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._failure() from None
        return [TimedBatch(rows, seconds) for rows, seconds in json.loads(self._answer())]

    def end(self) -> None:
        """End it, as there are no more requests."""
        self._close(self._process.stdin)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)

    def kill(self) -> None:
        """End it at once, if it has not ended. Its Java machine ends with it."""
        self._process.kill()
        self._process.wait()
        self._close(self._process.stdin)
        self._close(self._process.stdout)

    @staticmethod
    def _close(pipe: IO[str] | None) -> None:
        with suppress(BrokenPipeError):  # there was a request that it has not read
            if pipe is not None:
                pipe.close()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        if line := self._process.stdout.readline():
            return line
        raise self._failure()

    def _failure(self) -> CannotCompare:
        self._process.wait()
        said = [line for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines() if line]
        said = [line for line in said if not line[0].isspace()]  # without the lines of a stack
        last = said[-1] if said else "its process has ended"
        return CannotCompare(f"the benchmarks of {self.name} cannot be run: {last}. All of it is in {self.log}")


@contextmanager
def sides(commit: str, out: Path, repository: Path | None = None) -> Iterator[tuple[Side, Side]]:
    """Start the sides of a commit and of the work tree, and end them with the block.

    Args:
        commit: as git understands it.
        out: for what they write.
        repository: the work tree; by default, that of this file.

    Raises:
        CannotCompare: there is no such commit.
    """
    repository = repository or _ROOT
    full = _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    if full is None:
        raise CannotCompare(f"{repository} has no commit {commit!r}. Name one that `git log` shows")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="panekeeper-against-", ignore_cleanup_errors=True)))
        tree = folder.resolve() / "tree"
        stack.callback(_git, repository, "worktree", "remove", "--force", str(tree))
        if _git(repository, "worktree", "add", "--quiet", "--detach", str(tree), full) is None:
            raise CannotCompare(f"git cannot make a work tree of {commit!r} in {folder}. Is there space left?")
        both = []
        for name, root, runs in ((commit, tree, "commit"), (WORK_TREE, repository.resolve(), "work-tree")):
            stack.callback(shutil.rmtree, runs_folder := out.absolute() / "against" / runs, ignore_errors=True)
            both.append(side := Side(name, root, runs_folder))
            stack.callback(side.kill)
        yield both[0], both[1]
        for side in both:
            side.end()


def run_in_turns(
    both: tuple[Side, Side], workload: str, run: BenchmarkRun, *, rounds: int, print_line: Print
) -> tuple[Throughput, Throughput]:
    """Run a workload on both sides, once to warm up and then `rounds` times, in alternating order.

    Raises:
        CannotCompare: one side cannot run it.
    """
    for side in both:
        side.measure(workload, run)
    measured = [(side, Throughput(rows=run.given.rows)) for side in both]
    for number in range(rounds):
        for side, throughput in measured if number % 2 == 0 else reversed(measured):
            with processor_time(side.pid) as taken:
                batches = side.measure(workload, run)
            try:
                throughput.add_round(batches, run, taken)
            except Mismatch as error:
                raise CannotCompare(f"{side.name}, {workload}: {error}") from None
            print_line(f"round {number + 1}, {side.name}: {round_text(batches, taken)}")
    return measured[0][1], measured[1][1]


def table(commit: str, measured: dict[str, tuple[Throughput, Throughput]]) -> str:
    """Return what both sides took for a batch, with the least and greatest of a round, and the work tree's share."""
    lines = [("workload", "of a batch", commit, "of rounds", WORK_TREE, "of rounds", "ratio", "of rounds")]
    for name, throughputs in measured.items():
        figures = [_by_round(throughput) for throughput in throughputs]
        for number, (what, then) in enumerate(figures[0].items()):
            now = figures[1][what]
            ratios = [after / before for before, after in zip(then, now, strict=True) if before]
            cells = (name if number == 0 else "", what, *_figure(then), *_figure(now), *_figure(ratios, 2))
            lines.append(cells)
    return in_columns(lines, numbers={2, 3, 4, 5, 6, 7})


def _by_round(throughput: Throughput) -> dict[str, list[float]]:
    """Return each figure that is shown of one side, by round; no processor time where this system does not count it."""
    figures = {"seconds": [median(batches) for batches in throughput.rounds]}
    if totals := throughput.processor_totals():
        figures["processor s"] = totals
        figures |= {f"  {kind}": [seconds[kind] for seconds in throughput.processor] for kind in KINDS}
    return figures


def _figure(values: list[float], digits: int = 3) -> tuple[str, str]:
    """Return the median of some values, and their spread."""
    if not values:
        return "-", ""
    return f"{median(values):.{digits}f}", f"{min(values):.{digits}f}..{max(values):.{digits}f}"


def _git(repository: Path, *arguments: str) -> str | None:
    """Return what git prints; None if it fails or is not there."""
    try:
        done = subprocess.run(["git", "-C", str(repository), *arguments], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
