"""The laws find what is wrong: each of some defects that are put into the product, within so many examples."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.laws.defects import DEFECTS, Defect
from tests.laws.example import Example, examples, require
from tests.laws.playing import Broken

WITHIN = 600
"""So many examples find each."""


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda one: one.name)
def test_each_defect_is_found(defect: Defect) -> None:
    """A law breaks, by a declaration of the kind that can show it."""

    @settings(
        max_examples=WITHIN,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[*HealthCheck],
        phases=[Phase.generate],
    )
    @given(examples(defect.laws, defect.declared))
    def play(example: Example) -> None:
        require(example)

    with defect.in_place(), pytest.raises(Broken):
        play()
