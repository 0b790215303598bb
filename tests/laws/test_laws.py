"""The laws hold of any declaration and any history: some of them in `make test`, more where PANEKEEPER_CI is set.

`make explore` looks for new ones, as long as one likes.
"""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings

from tests.laws.example import Example, examples, require

OFTEN = 8
"""So many times as many examples as of other tests: here, they draw from everything there is."""


@settings(max_examples=OFTEN * settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(example=examples())
def test_every_law_holds_of_any_declaration_and_history(example: Example) -> None:
    """Whatever is accepted gives the same however it is cut, beside whatever it stands, and ends no job."""
    assume(require(example))
