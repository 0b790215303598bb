"""`panekeeper doctor` on this machine, and on a cluster whose executors lack something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from integration_tests.drills.process.cluster import cluster
from integration_tests.drills.process.launcher import environment
from panekeeper.diagnostics.doctor import PACKAGES, examine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PROGRAM = str(Path(__file__).with_name("packed_program.py"))


def doctor(*arguments: str | Path) -> dict[str, Any]:
    """Run the command in a process of its own and return what it prints."""
    command = [sys.executable, "-m", "panekeeper.cli.main", "doctor", *arguments, "--json"]
    ran = subprocess.run(command, env=os.environ | environment(), capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(ran.stdout)
    assert ran.returncode == (0 if found.get("can_run") else 1), ran.stderr
    return found


def test_this_machine_can_run_jobs(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is missing, and what was written to try a place is removed; a place that is a file is named."""
    (tmp_path / "file").write_text("mine")
    good = examine(spark, [str(tmp_path)])
    assert (good.can_run, good.findings) == (True, ())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    bad = examine(spark, [str(tmp_path / "file")])
    assert not bad.can_run
    assert [(one.level, one.where) for one in bad.findings] == [("error", str(tmp_path / "file"))]


@pytest.mark.release
def test_what_the_executors_of_a_cluster_lack_is_named(tmp_path: Path) -> None:
    """With the environment of the driver it can run jobs; with a bare Python each missing package is named."""
    with cluster(tmp_path / "cluster", environment() | {"PYTHONPATH": ""}) as master:  # else executors have the code
        at = f"spark.master={master}"
        good = doctor("--conf", at, "--conf", f"spark.pyspark.python={sys.executable}")
        assert good["can_run"]
        venv.create(tmp_path / "bare", with_pip=False)
        bare = doctor("--conf", at, "--conf", f"spark.pyspark.python={tmp_path / 'bare' / 'bin' / 'python'}", tmp_path)
    missing = [name for name in PACKAGES if any(f"package {name} is missing" in f["problem"] for f in bare["findings"])]
    assert "pyarrow" in missing
    assert "panekeeper" in missing
    assert any("a folder of each machine" in one["problem"] for one in bare["findings"])


@pytest.mark.release  # the stack runs one on a cluster from its image
def test_a_job_runs_on_packages_in_an_archive(tmp_path: Path) -> None:
    """On as many tasks as the cluster has cores, whatever the machine of the driver has."""
    with cluster(tmp_path / "cluster", environment()) as master:
        ran = run_packed(tmp_path, master)
    assert "8 key groups on 1 shuffle partitions, by 1 cores (executors: 1)" in ran
    assert ran.splitlines()[-1] == "[('a', 3), ('b', 4)]"


def run_packed(folder: Path, master: str) -> str:
    """Run a job whose executor has its Python in an archive: an environment that finds the packages of this one.

    The driver has it under the same name in the folder that it was started in.
    """
    venv.create(folder / "env", with_pip=False)
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    (site / "here.pth").write_text("\n".join([str(ROOT), *(path for path in sys.path if path.endswith("-packages"))]))
    with tarfile.open(folder / "env.tar.gz", "w:gz") as archive:
        for path in (folder / "env").iterdir():
            archive.add(path, path.name)
    (folder / "in").mkdir()
    lines = [("a", "10:00:10", 1), ("a", "10:00:20", 2), ("b", "10:00:30", 4)]
    rows = [json.dumps({"sensor": one, "at": f"2024-05-01T{at}Z", "value": value}) for one, at, value in lines]
    (folder / "in/0.json").write_text("\n".join(rows))
    command = [sys.executable, PROGRAM, str(folder), master, str(folder / "env.tar.gz")]
    given = os.environ | environment()
    ran = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
