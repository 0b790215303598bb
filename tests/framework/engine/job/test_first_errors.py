"""What could not be computed is told as it happens: once of each kind, to the log and as a warning."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings

import pytest

from panekeeper.framework.core.quarantine import ErrorKind
from panekeeper.framework.engine.job.first_errors import FirstErrors
from tests.project.sources import ROOT

WORST = ErrorKind(
    reason="USER_ERROR",
    kind="ZeroDivisionError in Worst, which handled trigger",
    count=1_200,
    first="ZeroDivisionError: 0 in Worst, which handled trigger\nTraceback (most recent call last):\n  File ...",
)
TOTAL = ErrorKind(
    reason="SUM_OVERFLOW",
    kind="InputError in the result column 'total'",
    count=1,
    first="the result column 'total': the sum of a window is 9223372036854775808",
)


def test_the_first_of_each_kind_is_warned_of_and_logged_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    """How many, in which batch, what was raised, and where they are; later ones are only counted."""
    errors = FirstErrors("delays", "out/delays_quarantine")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        errors.tell(3, [WORST])
        errors.tell(4, [WORST, TOTAL])
        errors.tell(5, [TOTAL, WORST])
    assert [(one.filename, one.lineno) for one in told] == [("<job delays>", 3), ("<job delays>", 4)]
    assert str(told[0].message) == (
        "1,200 rows or firings of batch 3 could not be computed and are in the quarantine out/delays_quarantine "
        "(USER_ERROR): ZeroDivisionError: 0 in Worst, which handled trigger. The job goes on, and counts further ones "
        "in its status"
    )
    assert str(told[1].message) == (
        "1 row or firing of batch 4 could not be computed and is in the quarantine out/delays_quarantine "
        "(SUM_OVERFLOW): the result column 'total': the sum of a window is 9223372036854775808. The job goes on, and "
        "counts further ones in its status"
    )
    assert [(one.levelno, one.getMessage().count("Traceback")) for one in caplog.records] == [
        (logging.ERROR, 1),
        (logging.ERROR, 0),
    ]


def test_a_program_without_handlers_sees_one_line() -> None:
    """On stderr, as Python prints any warning."""
    program = f"""
from panekeeper.framework.core.quarantine import ErrorKind
from panekeeper.framework.engine.job.first_errors import FirstErrors
errors = FirstErrors("delays", None)
errors.tell(3, [{WORST!r}])
errors.tell(4, [{WORST!r}])
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = ran.stderr.splitlines()
    assert line.startswith("<job delays>:3: UserWarning: 1,200 rows or firings of batch 3 could not be computed")


def test_where_warnings_are_errors_no_batch_fails_for_one() -> None:
    """Its tables are written."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FirstErrors("delays", None).tell(3, [WORST])
