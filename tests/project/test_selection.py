"""Which tests `make test` runs: some of every file, in minutes. Two other targets run the others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.project.sources import ROOT, TESTS, name_of

LEFT_OUT = {
    "integration_tests/drills/test_drills.py": "a job that is killed at each step is tested by itself",
    "integration_tests/kafka/test_flights_through_kafka.py": "Kafka and the flights are tested by themselves",
    "integration_tests/kafka/test_guide.py": "a job that reads Kafka is tested by itself",
    "integration_tests/kafka/test_soak.py": "Kafka and jobs that are killed are tested by themselves",
    "integration_tests/recovery/test_job_on_s3.py": "one on a local disk and savepoints on S3 are tested",
    "integration_tests/recovery/test_other_tables.py": "a restore to the same tables is tested",
    "integration_tests/diagnostics/test_replay.py": "recorded rows are read, and batches replayed in memory",
    "integration_tests/recovery/test_settlement.py": "rows are settled in memory; a kill and a restore are tested",
    "integration_tests/recovery/test_users_drill.py": "the drills of our own jobs are tested",
    "integration_tests/stack/test_stack.py": "needs Docker",
    "integration_tests/test_beside_own_modules.py": "every other job runs beside the checkout's modules",
    "integration_tests/test_guides.py": "the README's first program and the flights run",
    "integration_tests/test_tutorial.py": "the README's first program and the flights run",
}


def test_each_test_on_spark_is_run_by_one_of_the_targets() -> None:
    """None by two on one Spark, none by none: two targets select by a marker, the other by the absence of both."""
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    runs = [line for line in lines if "pytest integration_tests" in line or line.startswith("\t@$(ON_SPARK)")]
    command, quick, rest, older, release = runs
    assert command.startswith("ON_SPARK := $(PYTHON) -m pytest integration_tests ")
    selected = [line.removeprefix("\t@$(ON_SPARK) -m ") for line in (quick, rest, older, release)]
    assert selected == ['"not extended and not release"', '"extended"', '"spark_4_1"', '"release"']
    assert _collected("extended and release") == []


def test_make_test_runs_a_test_of_every_file() -> None:
    """Each file stands for something that Panekeeper does; what is left out altogether has its reason."""
    collected = {name.partition("::")[0] for name in _collected("not extended and not release")}
    files = {name for name in map(name_of, TESTS) if name.startswith("integration_tests/")}
    assert files - collected == LEFT_OUT.keys()


def test_continuous_integration_runs_all_but_what_only_a_release_waits_for() -> None:
    """The README's command, and half of what it leaves out."""
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    stages = [line.split()[1] for line in lines if line.startswith("make ")]
    assert stages == ["lint", "docs", ".venv/.jars", "images", "test", "test-rest", "test-4.1"]


def _collected(marks: str) -> list[str]:
    """Return the names of the tests on Spark that such marks select."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", marks, "integration_tests"]
    ran = subprocess.run([*command, "-p", "no:cacheprovider"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), ran.stdout
    return [line for line in ran.stdout.splitlines() if "::" in line]
