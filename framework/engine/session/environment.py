"""Decides whether this machine can run Panekeeper at all, and says in one line what to install if not.

It checks versions and Java classes only, not settings of Spark; it imports no pyspark, so that it works where pyspark
does not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from panekeeper.framework.declarations.errors import SetupError

JAVA_VERSIONS = (17, 21)
PYTHON_MINIMUM = (3, 11)
SPARK_SERIES = ("4.1", "4.2")
"""Delta has Java libraries for these, in `DELTA_VERSION`."""
DELTA_VERSION = "4.4.0"
PANDAS_BELOW = 3

_DELTA = "delta-spark"
_PACKAGES = ("pyspark", _DELTA, "deltalake", "pandas", "pyarrow", "numpy", "protobuf")


@dataclass(frozen=True, kw_only=True)
class Versions:
    """What is installed here. `java` is the major version (None: no Java); a missing package is not in `packages`."""

    python: tuple[int, int]
    java: int | None
    packages: Mapping[str, str]


def check_environment(*, given_delta: bool = False) -> None:
    """Check Python, Java and the packages, before Spark starts. Raises `SetupError`: one line says what to install.

    With `given_delta` Delta's Java side is there already, so its Python side is the platform's to choose.
    """
    if (line := find_problem(installed(), given_delta=given_delta)) is not None:
        raise SetupError(line)


def check_packages() -> None:
    """Check the packages beside a session that runs: which Java it has, and which Delta, is decided."""
    if (line := _package_problem(_packages_found(), given_delta=True)) is not None:
        raise SetupError(line)


def spark_series(version: str) -> str:
    """Return the series of a version of Spark, by which Java libraries for it are named.

    >>> spark_series("4.2.0")
    '4.2'
    """
    return ".".join(version.split(".")[:2])


def class_is_loadable(jvm: Any, name: str) -> bool:
    """Return whether the Java side of a session, or of a program that was submitted, has a class."""
    return bool(jvm.org.apache.spark.util.Utils.classIsLoadable(name))


def find_problem(versions: Versions, *, given_delta: bool = False) -> str | None:
    """Return the first thing that is wrong with these versions, as the line a user reads; None if all is well."""
    if versions.python < PYTHON_MINIMUM:
        version = ".".join(map(str, versions.python))
        return f"Python {version} is too old: Panekeeper needs Python 3.11 or newer."
    if versions.java is None:
        return "Java is missing: install Java 17 or 21 (a JRE is enough), or set JAVA_HOME to one."
    if versions.java not in JAVA_VERSIONS:
        return f"Java {versions.java} was found, but Spark runs on Java 17 or 21: set JAVA_HOME to one."
    return _package_problem(versions.packages, given_delta=given_delta)


def _package_problem(packages: Mapping[str, str], *, given_delta: bool) -> str | None:
    for name in _PACKAGES:
        if name not in packages and not (given_delta and name == _DELTA):
            return f"The Python package {name} is missing: run `pip install panekeeper` in this environment."
    spark, delta = packages["pyspark"], packages.get(_DELTA)
    if spark_series(spark) not in SPARK_SERIES or (delta != DELTA_VERSION and not given_delta):
        return (
            f"pyspark {spark} with delta-spark {delta} was found; Panekeeper runs on pyspark "
            f"{' and '.join(SPARK_SERIES)} with delta-spark {DELTA_VERSION}: "
            f"run `pip install 'pyspark=={SPARK_SERIES[-1]}.*' delta-spark=={DELTA_VERSION}`."
        )
    if int(packages["pandas"].partition(".")[0]) >= PANDAS_BELOW:
        return (
            f"pandas {packages['pandas']} was found, which Spark cannot use: run `pip install 'pandas<{PANDAS_BELOW}'`."
        )
    return None


def installed() -> Versions:
    """Look at this interpreter, its packages, and the Java that Spark would start."""
    java, version = java_executable(), None
    if java is not None:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        version = java_major(ran.stderr + ran.stdout)
    return Versions(python=sys.version_info[:2], java=version, packages=_packages_found())


def _packages_found() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def java_major(text: str) -> int | None:
    """The major version in what `java -version` prints, None if it prints none.

    >>> java_major('openjdk version "17.0.15" 2025-04-15'), java_major('java version "1.8.0_392"')
    (17, 8)
    """
    match = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if match is None:
        return None
    first, second = match.groups()
    return int(second) if first == "1" and second else int(first)  # Java 8 and older call themselves 1.8


def java_executable() -> str | None:
    """The Java that Spark's own launcher takes: that of JAVA_HOME if it is set and not empty, else that of the PATH."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home, "bin", "java"))) if home else shutil.which("java")
