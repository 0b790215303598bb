"""A commit and the work tree in turns: which trees run on which input, and what is said of those that do not run.

The trees are small packages without Spark, in a repository of their own; the processes, git and the program that runs
in each process are the real ones.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks import against
from benchmarks.__main__ import CANNOT_RUN, main
from benchmarks.against import CannotCompare, run_in_turns, sides, table
from benchmarks.data import Input
from benchmarks.measure import BenchmarkRun, Throughput
from benchmarks.workloads import workloads

TREE = {
    "panekeeper/__init__.py": """
class Spark:
    def stop(self): ...
def session(name, **settings): return Spark()
""",
    "benchmarks/__init__.py": "",
    "benchmarks/contenders.py": """
class RunEnvironment:
    def __init__(self, *, spark, folder): self.folder = folder
""",
    "benchmarks/data.py": """
from dataclasses import dataclass
from pathlib import Path
@dataclass
class Input:
    folder: Path
    files: int
    rows: int
""",
    "benchmarks/workloads.py": """
import os
from pathlib import Path
from types import SimpleNamespace as Named
def measure(given, environment):
    with Path(given.folder, "turns").open("a") as turns: print(SIDE, os.getpid(), file=turns)
    return [Named(rows=given.rows, seconds=SECONDS)] * given.files
SIDE, SECONDS = "then", 2.0
def workloads(): return [Named(name="tumbling", us=Named(contender=Named(measure=measure)))]
""",
}

FAILS = "    raise RuntimeError('lost\\n  at a\\n  at b')\n    return [N"


def git(repository: Path, *arguments: str) -> str:
    """What git prints."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(repository), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, and a work tree that differs from it."""
    made = tmp_path / "repository"
    for name, text in TREE.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    git(tmp_path, "init", "--quiet", str(made))
    git(made, "add", "--all")
    git(made, "commit", "--quiet", "--message", "then")
    change(made, '"then", 2.0', '"now", 3.0')
    return made


def change(repository: Path, old: str, new: str) -> None:
    """Change the workloads of the work tree."""
    path = repository / "benchmarks" / "workloads.py"
    path.write_text(path.read_text().replace(old, new))


def given(folder: Path) -> BenchmarkRun:
    """Two files; that there are none does not matter here."""
    (workload,) = (one for one in workloads() if one.name == "tumbling")
    return BenchmarkRun(contender=workload.us.contender, given=Input(folder=folder, files=2, rows=10, keys=1), warm=0)


def trees(repository: Path) -> list[str]:
    """The work trees that git knows."""
    return [line for line in git(repository, "worktree", "list", "--porcelain").splitlines() if line.startswith("work")]


def test_both_trees_run_in_turns_on_the_same_input(repository: Path, tmp_path: Path) -> None:
    """Each in a process of its own: once to warm up, then in alternating order. The commit's tree is removed."""
    lines: list[str] = []
    with sides("HEAD", tmp_path / "out", repository) as both:
        assert [side.workloads for side in both] == [["tumbling"]] * 2
        assert len(trees(repository)) == 2
        throughputs = run_in_turns(both, "tumbling", given(tmp_path), rounds=2, print_line=lines.append)
        pids = {str(side.pid) for side in both}
    turns = [line.split() for line in (tmp_path / "turns").read_text().splitlines()]
    assert [side for side, _ in turns] == ["then", "now", "then", "now", "now", "then"]
    assert {pid for _, pid in turns} == pids
    assert [throughput.rounds for throughput in throughputs] == [[[2.0, 2.0]] * 2, [[3.0, 3.0]] * 2]
    assert [len(throughput.processor) for throughput in throughputs] == [2, 2]
    assert lines[0].startswith("round 1, HEAD: 2.00 2.00 s; processor driver 0.0 java 0.0 workers 0.0 s")
    assert len(trees(repository)) == 1
    assert [path.name for path in (tmp_path / "out" / "against").iterdir() if path.is_dir()] == []


def test_the_table_shows_both_sides_with_their_spread_and_the_ratio() -> None:
    """The ratio is what the work tree takes of what the commit took; below 1 it is faster."""
    then = Throughput(rows=10, rounds=[[1.0], [2.0], [4.0]], processor=[{"driver": 1, "java": 2, "workers": 1}] * 3)
    now = Throughput(rows=10, rounds=[[1.0], [1.0], [1.0]], processor=[{"driver": 1, "java": 3, "workers": 0}] * 3)
    header, seconds, processor, driver, java, workers = table("abc", {"tumbling": (then, now)}).splitlines()
    assert header.split()[:4] == ["workload", "of", "a", "batch"]
    assert " ".join(seconds.split()) == "tumbling seconds 2.000 1.000..4.000 1.000 1.000..1.000 0.50 0.25..1.00"
    assert " ".join(processor.split()) == "processor s 4.000 4.000..4.000 4.000 4.000..4.000 1.00 1.00..1.00"
    assert [line.split()[-2] for line in (driver, java, workers)] == ["1.00", "1.50", "0.00"]


def test_a_commit_that_is_not_there_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is started for it, also if it looks like an option; the exit code is that of wrong options."""
    for name in ("no-such-commit", "--all"):
        assert main([f"--against={name}", "--out", str(tmp_path)]) == CANNOT_RUN
        (line,) = capsys.readouterr().err.splitlines()
        assert f"no commit {name!r}" in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("import os", "import absent", "of work tree cannot be run: ModuleNotFoundError: No module named 'absent'. "),
        ("    return [N", FAILS, "of work tree cannot be run: RuntimeError: lost. All of it is in "),
        ("given.files", "1", "work tree, tumbling: panekeeper read 1 of 3 files"),
    ],
)
def test_a_tree_that_cannot_be_run_is_refused_in_one_line(
    repository: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    old: str,
    new: str,
    said: str,
) -> None:
    """It cannot be imported, it fails, or it does not read each file in a batch of its own."""
    change(repository, old, new)
    monkeypatch.setattr(against, "_ROOT", repository)
    assert main(["--against", "HEAD", "--out", str(tmp_path / "out"), "--only", "tumbling", "--quick"]) == CANNOT_RUN
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert len(trees(repository)) == 1


def test_a_workload_that_a_tree_does_not_have_is_left_out(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line says so; if none is left, there is nothing to compare."""
    monkeypatch.setattr(against, "_ROOT", repository)
    assert main(["--against", "HEAD", "--out", str(tmp_path / "out"), "--only", "nexmark-q5"]) == CANNOT_RUN
    assert capsys.readouterr().out.splitlines()[-1] == "  not in HEAD"


def test_a_tree_of_other_packages_than_its_own_is_refused(repository: Path, tmp_path: Path) -> None:
    """Both sides would be the same, and nothing would say so."""
    git(repository, "rm", "--quiet", "-r", "--cached", "panekeeper")
    git(repository, "commit", "--quiet", "--message", "without it")
    with (
        pytest.raises(CannotCompare, match="of HEAD cannot be run: ImportError: panekeeper is not imported from this"),
        sides("HEAD", tmp_path / "out", repository) as (then, _),
    ):
        assert then.workloads


def test_an_interrupted_comparison_leaves_nothing_behind(repository: Path, tmp_path: Path) -> None:
    """Ctrl-C ends the processes at once and removes the commit's tree."""
    pids: list[int] = []

    def interrupted() -> None:
        with sides("HEAD", tmp_path / "out", repository) as both:
            pids.extend(side.pid for side in both if side.workloads)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(trees(repository)) == 1
    assert len(pids) == 2
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
