"""Which facts about a session and its machines keep jobs from running. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from panekeeper.framework.engine.session.required_settings import DELTA_SETTINGS, STATE_SETTINGS
from panekeeper.recovery.doctor.machine import PACKAGES, Machine

_MAX_CLOCK_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that is wrong.

    Attributes:
        level: error: jobs do not run; warning: they run, and something may not be as expected.
        where: "session", the name of a host, or a place.
        problem: what it is, and what to do.
    """

    level: Literal["error", "warning"]
    where: str
    problem: str


def check_settings(settings: Mapping[str, str | None]) -> Iterator[Finding]:
    """Yield what is wrong with the settings of a session."""
    for name, wanted in DELTA_SETTINGS.items():
        if wanted not in (settings.get(name) or ""):
            yield Finding(level="error", where="session", problem=f"it has no Delta: set {name}={wanted}")
    for name, wanted in STATE_SETTINGS.items():
        if settings.get(name) != wanted:
            problem = f"{name} is {settings.get(name)}; jobs set it to {wanted} for their queries"
            yield Finding(level="warning", where="session", problem=problem)


def check_machines(driver: Machine, executors: Sequence[Machine]) -> Iterator[Finding]:
    """Yield what is wrong with the executors beside the driver."""
    for one in executors:
        if one.python != driver.python:
            yield Finding(
                level="error",
                where=one.host,
                problem=f"Python {one.python} runs there and {driver.python} in the driver: set spark.pyspark.python, "
                "or send the driver's environment along (docs/clusters.md)",
            )
        for name in PACKAGES:
            yield from _check_package(one, name, driver.packages.get(name), one.packages.get(name))
        if abs(one.clock_s) > _MAX_CLOCK_S:
            direction = "ahead of" if one.clock_s > 0 else "behind"
            problem = f"its clock is {abs(one.clock_s):g} s {direction} the driver's: synchronise the clocks"
            yield Finding(level="warning", where=one.host, problem=problem)


def _check_package(machine: Machine, name: str, wanted: str | None, found: str | None) -> Iterator[Finding]:
    if found is None:
        problem = f"the Python package {name} is missing: install it there, or send it along (docs/clusters.md)"
        yield Finding(level="error", where=machine.host, problem=problem)
    elif wanted is not None and "?" not in (wanted, found) and found != wanted:
        same_series = name != "panekeeper" and found.split(".")[0] == wanted.split(".")[0]
        yield Finding(
            level="warning" if same_series else "error",
            where=machine.host,
            problem=f"{name} {found} is there and {wanted} in the driver: install the same version",
        )
