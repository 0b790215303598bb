"""One example: a declaration and a history, and some of the laws that apply to them."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from panekeeper import DeclarationError, InputError
from tests.laws.declarations import DRAW, Declaration, declarations
from tests.laws.histories import History, histories
from tests.laws.laws import LAWS, applying, base_of
from tests.laws.playing import PLAYED, Broken, Play, report

HISTORIES = 2
"""So many histories are played of each declaration: to draw one costs as much as to play it."""


@dataclass(frozen=True)
class Example:
    """What is drawn.

    Attributes:
        declaration: any one.
        histories: any ones, each with the law that is tried.
    """

    declaration: Declaration
    histories: tuple[tuple[History, str], ...]


@st.composite
def examples(
    draw: DRAW, laws: Sequence[str] = tuple(LAWS), declared: st.SearchStrategy[Declaration] | None = None
) -> Example:
    """Draw a declaration, any one if it is not said which, and histories, each with one of the laws."""
    declared = declarations() if declared is None else declared
    declaration, found = draw(declared), []
    for _ in range(HISTORIES):
        history = draw(histories)
        possible = [one for one in applying(declaration, history) if one in laws]
        if possible:
            found.append((history, draw(st.sampled_from(possible))))
    return Example(declaration, tuple(found))


def require(example: Example) -> bool:
    """Raise `Broken` for a law that does not hold, also that no accepted declaration ends a job.

    Returns False for a declaration that is refused.
    """
    PLAYED.declarations += 1
    for history, law in example.histories:
        base = base_of(example.declaration, history)
        try:
            _ = base.job
        except DeclarationError:
            PLAYED.refused += 1
            return False
        PLAYED.histories += 1
        if example.declaration.options.get("on_error") == "fail" and _fails(base):
            continue
        PLAYED.by_law[law] = PLAYED.by_law.get(law, 0) + 1
        for one in dict.fromkeys(("rows", "columns", law)):  # which need no other play
            try:
                _raising_nothing(base, history, one)
            except DeclarationError:  # of what is declared instead
                PLAYED.refused += 1
    return True


def _fails(base: Play) -> bool:
    """Return whether a row, or a firing, that cannot be computed fails the job, as is declared."""
    try:
        _ = base.batches
    except InputError:
        return True
    except Exception:  # noqa: BLE001 -- which is told with the law
        return False
    return False


def _raising_nothing(base: Play, history: History, law: str) -> None:
    """Raise `Broken` where playing raises anything else: no accepted declaration ends a job."""
    try:
        LAWS[law](base, history)
    except (Broken, DeclarationError):
        raise
    except Exception as error:
        what = "".join(traceback.format_exception(error)[-3:])
        raise Broken(report("a declaration that is accepted ends no job", what, base)) from error
