"""Which cases of a test continuous integration runs, where each costs seconds and differs little from the others."""

from __future__ import annotations

from typing import Any

import pytest


def first_before_release(*cases: tuple[Any, ...]) -> list[Any]:
    """Return the cases of a test, the arguments of each as a tuple: `make test-rest` runs the first one only."""
    first, *others = cases
    return [
        pytest.param(*first, marks=pytest.mark.extended),
        *(pytest.param(*case, marks=pytest.mark.release) for case in others),
    ]
