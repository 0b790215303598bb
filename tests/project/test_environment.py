"""The errors where the machine lacks something; versions are passed in, nothing is installed or started."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from panekeeper.framework.engine.session.environment import Versions, find_problem, java_executable, java_major

ROOT = Path(__file__).resolve().parents[2]
GOOD = {
    "pyspark": "4.2.0",
    "delta-spark": "4.4.0",
    "deltalake": "1.6.6",
    "pandas": "2.3.3",
    "pyarrow": "26.0.1",
    "numpy": "2.4.6",
    "protobuf": "7.36.2",
}


def versions(*, python: tuple[int, int] = (3, 11), java: int | None = 17, **packages: str | None) -> Versions:
    """A machine that fits, but for what is named; None leaves a package out."""
    named = {name.replace("_", "-"): version for name, version in packages.items()}
    return Versions(python=python, java=java, packages={k: v for k, v in (GOOD | named).items() if v is not None})


@pytest.mark.parametrize("java", [17, 21])
@pytest.mark.parametrize("pyspark", ["4.1.0", "4.1.4", "4.2.0"])
def test_a_machine_that_fits_has_no_problem(java: int, pyspark: str) -> None:
    """Java 17 and 21 are both welcome, and so are Spark 4.1 and 4.2."""
    assert find_problem(versions(java=java, pyspark=pyspark)) is None


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (versions(java=None), ["Java is missing", "17 or 21", "JAVA_HOME"]),
        (versions(java=11), ["Java 11", "17 or 21", "JAVA_HOME"]),
        (versions(java=25), ["Java 25", "17 or 21"]),
        (versions(python=(3, 10)), ["Python 3.10", "3.11"]),
        (versions(protobuf=None), ["protobuf", "pip install"]),
        (versions(pandas="3.0.1"), ["pandas 3.0.1", "pandas<3"]),
        (versions(pyspark="4.0.1"), ["pyspark 4.0.1", "delta-spark 4.4.0", "pyspark 4.1 and 4.2"]),
        (versions(pyspark="4.3.0"), ["pyspark 4.3.0", "pyspark 4.1 and 4.2", "pip install 'pyspark==4.2.*'"]),
        (versions(pyspark="4.20.0"), ["pyspark 4.20.0", "pyspark 4.1 and 4.2"]),
        (versions(delta_spark="4.4.1"), ["pyspark 4.2.0", "delta-spark 4.4.1", "delta-spark 4.4.0"]),
    ],
)
def test_what_is_missing_or_wrong_is_said_in_one_line(machine: Versions, words: list[str]) -> None:
    """The line names what was found, what is needed, and what to do."""
    line = find_problem(machine)
    assert line is not None
    assert "\n" not in line
    assert [word for word in words if word not in line] == []


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "21.0.2" 2024-01-16', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17" 2021-09-14', 17),
        ('java version "1.8.0_392"', 8),
        ("Unable to locate a Java Runtime.", None),
    ],
)
def test_every_way_java_states_its_version_is_understood(text: str, major: int | None) -> None:
    """Old and new numbering, a notice before it, and the launcher that has no Java behind it."""
    assert java_major(text) == major


def run_tool(name: str, *folders: Path, java_home: str = "") -> subprocess.CompletedProcess[str]:
    """Starts a script of tools/ on a machine whose PATH holds these folders and the shell's own tools."""
    basics = folders[0] / "basics"
    basics.mkdir(exist_ok=True)
    for tool in ("sh", "sed", "head"):
        source = next(Path(f, tool) for f in os.environ["PATH"].split(":") if Path(f, tool).exists())
        (basics / tool).symlink_to(source)
    environment = {"PATH": ":".join(map(str, (*folders, basics))), "JAVA_HOME": java_home}
    return subprocess.run([ROOT / "tools" / name], env=environment, capture_output=True, text=True, check=False)


def program(path: Path, *lines: str) -> None:
    """Makes a small shell program."""
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ('openjdk version "17.0.15" 2025-04-15', ""),
        ('openjdk version "21.0.2" 2024-01-16', ""),
        ('java version "1.8.0_392"', "Java 8 was found"),
        ('openjdk version "25" 2025-09-16', "Java 25 was found"),
        (None, "Java is missing: install Java 17 or 21"),
    ],
)
def test_make_says_in_one_line_which_java_is_needed(tmp_path: Path, says: str | None, message: str) -> None:
    """The check that `make` runs first agrees with the program's own."""
    if says is not None:
        program(tmp_path / "java", f"echo '{says}' >&2")
    ran = run_tool("check-java", tmp_path)
    assert ran.returncode == (1 if message else 0)
    assert ran.stderr.startswith(message)
    assert ran.stderr.count("\n") == (1 if message else 0)


@pytest.mark.parametrize("home", [None, "", "own"])
def test_the_java_that_spark_starts_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    """An empty JAVA_HOME is none: the PATH counts, as for Spark's own launcher."""
    (tmp_path / "own" / "bin").mkdir(parents=True)
    program(tmp_path / "java")
    program(tmp_path / "own" / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", home and str(tmp_path / home))
    assert java_executable() == str(tmp_path / ("own/bin/java" if home else "java"))


@pytest.mark.parametrize(
    ("pythons", "message"),
    [
        ({}, "Python is missing"),
        ({"python3": "3.9"}, "Python 3.9 is here, but"),
        ({"python3.13": None}, "Python is missing"),
        ({"python3": "3.12 without venv"}, "Python 3.12 is here but cannot make virtual environments"),
    ],
)
def test_make_says_in_one_line_which_python_is_needed(
    tmp_path: Path, pythons: dict[str, str | None], message: str
) -> None:
    """Too old, without the venv package, or a version manager's shim with nothing behind it."""
    place_pythons(tmp_path, pythons)
    ran = run_tool("find-python", tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(message)
    assert ran.stderr.count("\n") == 1


def test_make_takes_the_first_python_that_really_fits(tmp_path: Path) -> None:
    """A broken shim, an old one and one without venv are passed over."""
    place_pythons(
        tmp_path, {"python3.13": None, "python3.12": "3.12 without venv", "python3.11": "3.11", "python3": "3.9"}
    )
    ran = run_tool("find-python", tmp_path)
    assert (ran.returncode, ran.stdout) == (0, f"{tmp_path}/python3.11\n")


def place_pythons(folder: Path, pythons: dict[str, str | None]) -> None:
    """Programs that print what a Python of that version does; None is a shim that leads nowhere."""
    for name, version in pythons.items():
        if version is None:
            program(folder / name, "exit 127")
            continue
        number, _, without = version.partition(" ")
        program(folder / name, f'case "$2" in *ensurepip*) exit {1 if without else 0};; esac', f"echo {number}")
