"""What the facts about machines and a session mean for jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from panekeeper.diagnostics.doctor import PACKAGES, Machine, check_machines, check_settings, driver
from panekeeper.framework.engine.session.settings import DELTA_SETTINGS

DRIVER = Machine(host="d", python="3.11", packages={**dict.fromkeys(PACKAGES, "2.1.0"), "panekeeper": "0.1.0"})


def levels(executor: Machine) -> list[tuple[str, str]]:
    """Level and text of each finding about one executor."""
    return [(one.level, one.problem) for one in check_machines(DRIVER, [executor])]


def test_an_executor_like_the_driver_has_no_problem() -> None:
    """The same Python and packages."""
    assert levels(replace(DRIVER, host="e")) == []


@pytest.mark.parametrize(
    ("executor", "level", "words"),
    [
        (replace(DRIVER, python="3.12"), "error", "Python 3.12 runs there and 3.11 in the driver"),
        (replace(DRIVER, packages={**DRIVER.packages, "pyarrow": "1.0"}), "error", "pyarrow 1.0 is there and 2.1.0"),
        (replace(DRIVER, packages={**DRIVER.packages, "pyarrow": "2.0"}), "warning", "pyarrow 2.0 is there and 2.1.0"),
        (replace(DRIVER, packages={**DRIVER.packages, "panekeeper": "0.2.0"}), "error", "panekeeper 0.2.0 is there"),
    ],
    ids=["python", "other series", "same series", "panekeeper"],
)
def test_what_differs_is_named(executor: Machine, level: str, words: str) -> None:
    """With what is there and what is wanted."""
    ((found, problem),) = levels(executor)
    assert found == level
    assert words in problem


def test_a_package_that_is_missing_is_named() -> None:
    """Of a package whose code was sent along, no version is known, and none is compared."""
    packages = {name: version for name, version in DRIVER.packages.items() if name != "pyarrow"}
    ((level, problem),) = levels(replace(DRIVER, packages={**packages, "panekeeper": "?"}))
    assert (level, problem.split(":")[0]) == ("error", "the Python package pyarrow is missing")


def test_a_session_without_delta_cannot_run_jobs() -> None:
    """The finding says which setting it lacks."""
    good: dict[str, str | None] = {**DELTA_SETTINGS}
    assert list(check_settings(good)) == []
    assert [one.level for one in check_settings(good | {"spark.sql.extensions": None})] == ["error"]


def test_the_driver_has_all_that_it_needs() -> None:
    """This process: its packages are those of the lock."""
    assert list(check_machines(driver(), [driver()])) == []
    assert set(driver().packages) == set(PACKAGES)
