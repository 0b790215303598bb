"""When a window of event time fires, and what a firing shows: options that all such windows share.

A cell below is what one partition has in one pane (docs/semantics.md section 6.7).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

from panekeeper.framework.declarations.aggregates import Aggregate, expr
from panekeeper.framework.declarations.calls import with_named_options
from panekeeper.framework.declarations.display import Called
from panekeeper.framework.declarations.durations import Duration, to_us
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.policies import require_count, require_positive

Emit = Literal["on_complete", "on_close", "on_update"]
"""Which firings a pane has without further rules (docs/semantics.md section 6.7)."""

Results = Literal["accumulating", "discarding", "retracting"]
"""Which rows a firing shows (docs/semantics.md section 6.8)."""


Fill = Literal["null", "last", "zero"]
"""What a pane without rows shows (docs/semantics.md section 6.11)."""


@with_named_options
@dataclass(frozen=True)
class Every(Called):
    """How often something fires: by the wall clock, by rows, or by event time; one of the three.

    Args:
        period: a duration by the wall clock, > 0.
        rows: a number of rows, > 0.
        event_time: a duration by which the watermark advances, > 0.

    Raises:
        DeclarationError: none of them or several, or a value that is not greater than 0.

    >>> Every("10 seconds"), Every(rows=100)
    (Every('10 seconds'), Every(rows=100))
    """

    period: Duration | None = None
    _: KW_ONLY
    rows: int | None = None
    event_time: Duration | None = None

    def __post_init__(self) -> None:
        given = [option for option in (self.period, self.rows, self.event_time) if option is not None]
        if len(given) != 1:
            raise DeclarationError(
                f"Every() has {len(given) or 'none'} of a duration, rows= and event_time=; give one of them, as in "
                "Every('10 seconds'), Every(rows=100) or Every(event_time='1 minute')"
            )
        if self.period is not None:
            require_positive(self.period, "the duration of Every()")
        if self.rows is not None:
            object.__setattr__(self, "rows", require_count(self.rows, "rows of Every()"))
        if self.event_time is not None:
            require_positive(self.event_time, "event_time of Every()")

    @property
    def period_us(self) -> int | None:
        """The duration by the wall clock, in microseconds; None if it is not by that."""
        return None if self.period is None else to_us(self.period, "the duration of Every()")

    @property
    def event_time_us(self) -> int | None:
        """The duration by the watermark, in microseconds; None if it is not by that."""
        return None if self.event_time is None else to_us(self.event_time, "event_time of Every()")

    def declaration(self) -> dict[str, int]:
        """Return what it is, in microseconds or rows."""
        declared = {"period_us": self.period_us, "rows": self.rows, "event_time_us": self.event_time_us}
        return {name: value for name, value in declared.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class FiringOptions(Called):
    """The options of a window of event time that say when its panes, or sessions, fire, and what a firing shows.

    Attributes:
        emit: `"on_complete"`: when the watermark reaches the end, and again for late rows; `"on_close"`: once, when the
            pane closes; `"on_update"`: after each micro-batch that changed it, too.
        early: how often it fires before it is complete, while it has rows that have not fired.
        refire: how often it fires for late rows; at each advancing watermark if not given.
        results: what a firing of aggregates shows: `"accumulating"`, all rows of the pane; `"discarding"`, those since
            it last fired; `"retracting"`, all rows, after a row that takes back the result before.
    """

    what_fires: ClassVar[str] = "a pane"
    """What the window has, for errors."""
    emit: Emit = "on_complete"
    early: Every | None = None
    refire: Every | None = None
    results: Results = "accumulating"

    def require_possible_firing(self, *, takes_late_rows: bool = True) -> None:
        """Raise `DeclarationError` for options that contradict each other, or by which nothing could ever fire."""
        require_emit(self.emit)
        for what, given in self._every.items():
            _require_every(what, given)
            if self.emit != "on_complete":
                fires = "once, when it closes" if self.emit == "on_close" else "after each micro-batch anyway"
                raise DeclarationError(
                    f"{what} is {given!r}, but by emit={self.emit!r} {self.what_fires} fires {fires}; leave out one of "
                    "them"
                )
        require_one_of(("accumulating", "discarding", "retracting"), self.results, "results")
        if self.refire is not None and self.refire.event_time is not None:
            raise DeclarationError(
                f"refire is {self.refire!r}; late rows fire by rows or the wall clock, as by Every(rows=2), or without "
                "refire at each advance of the watermark"
            )
        if self.refire is not None and not takes_late_rows:
            raise DeclarationError(
                f"refire is {self.refire!r}, but {self.what_fires} without discard_age takes no late rows; give "
                "discard_age, or leave out refire"
            )

    @property
    def keeps_firings(self) -> bool:
        """Whether each cell needs a record of how often it fired, and of the rows since."""
        return self.emit == "on_update" or self.results != "accumulating" or bool(self._every)

    @property
    def _every(self) -> dict[str, Every]:
        """The rules that are declared, by the names of their options."""
        given = {"early": self.early, "refire": self.refire}
        return {name: rule for name, rule in given.items() if rule is not None}

    @property
    def fires_by_clock(self) -> bool:
        """Whether some of the firings depend on the wall clock, and so on when rows arrived."""
        return any(rule.period is not None for rule in self._every.values())

    @property
    def fires_at_rows(self) -> bool:
        """Whether some of the firings are at certain rows, so that rows must come one by one."""
        return any(rule.rows is not None for rule in self._every.values())

    @property
    def forgets(self) -> bool:
        """Whether what has fired is left out of the next firing."""
        return self.results == "discarding"

    @property
    def needs_partial_results(self) -> bool:
        """Whether only aggregates that merge partial results can be computed."""
        return self.forgets

    def firing_declaration(self) -> dict[str, Any]:
        """Return the options that are not the default: none may change between two runs on one checkpoint."""
        emit = {} if self.emit == "on_complete" else {"emit": self.emit}
        results = {} if self.results == "accumulating" else {"results": self.results}
        return {**emit, **{name: rule.declaration() for name, rule in self._every.items()}, **results}


@dataclass(frozen=True, kw_only=True)
class PaneFiringOptions(FiringOptions):
    """The options of a window of panes that say when these fire, and what a firing shows.

    Attributes:
        fires_when: a condition over the result columns, as `agg.expr` takes it, tried after each row: the pane fires if
            it holds.
        then: `"begin_anew"`: a pane is empty after it has fired.
        fill: what a pane without rows shows, for a partition with rows before: `"null"`, `"zero"` or `"last"`.
        fill_for: how long after the end of the partition's last pane with rows panes are filled.
    """

    fires_when: str | None = None
    then: Literal["begin_anew"] | None = None
    fill: Fill | None = None
    fill_for: Duration | None = None

    def require_possible_firing(self, *, takes_late_rows: bool = True) -> None:
        """Raise `DeclarationError` for options that contradict each other, or by which nothing could ever fire."""
        super().require_possible_firing(takes_late_rows=takes_late_rows)
        self._require_possible_condition()
        self._require_possible_fill()

    @property
    def keeps_firings(self) -> bool:
        """Whether each cell needs a record of how often it fired, and of the rows since."""
        return super().keeps_firings or self.fires_when is not None or self.fill is not None

    @property
    def fill_for_us(self) -> int:
        """How long panes without rows are filled, in microseconds of event time; 0 if they are not."""
        return 0 if self.fill_for is None else to_us(self.fill_for, "fill_for")

    @property
    def forgets(self) -> bool:
        """Whether a pane is empty after it has fired."""
        return super().forgets or self.then is not None

    @property
    def keeps_panes_apart(self) -> bool:
        """Whether each pane has partial results of its own, not of slices that it shares with others."""
        return self.forgets or self.fires_when is not None

    @property
    def needs_partial_results(self) -> bool:
        """Whether only aggregates that merge partial results can be computed."""
        return self.keeps_panes_apart

    @property
    def fires_at_rows(self) -> bool:
        """Whether some of the firings are at certain rows, so that rows must come one by one."""
        return super().fires_at_rows or self.fires_when is not None

    @property
    def condition(self) -> Aggregate | None:
        """`fires_when` as an aggregate over those of the result columns."""
        return None if self.fires_when is None else expr(self.fires_when)

    def _require_possible_condition(self) -> None:
        if self.then is not None:
            require_one_of(("begin_anew",), self.then, "then")
            if self.fires_when is None:
                raise DeclarationError(f"then is {self.then!r}, but there is no fires_when; give that, or leave it out")
        if self.fires_when is None:
            return
        others = [*self._every, *(["emit"] if self.emit != "on_complete" else [])]
        others += ["results"] if self.results != "accumulating" else []
        if others:
            raise DeclarationError(
                f"fires_when is {self.fires_when!r}, a rule for all rows of a pane; leave out {' and '.join(others)}"
            )
        try:
            condition = expr(self.fires_when)
        except DeclarationError as error:
            raise DeclarationError(f"fires_when: {error}") from None
        if condition.term is None or not condition.term.is_boolean:
            raise DeclarationError(
                f"fires_when is {self.fires_when!r}, which is no condition; write one, as 'sum >= 9'"
            )

    def _require_possible_fill(self) -> None:
        if self.fill is None:
            if self.fill_for is not None:
                raise DeclarationError(
                    f"fill_for is {self.fill_for!r}, but there is no fill; give fill='null', 'last' or 'zero', or "
                    "leave it out"
                )
            return
        require_one_of(("null", "last", "zero"), self.fill, "fill")
        if self.fill_for is None:
            raise DeclarationError(
                f"fill is {self.fill!r} without fill_for, so a partition would be filled for ever; say for how long "
                "after its last rows, as in fill_for='1 day'"
            )
        require_positive(self.fill_for, "fill_for")
        others = [*self._every, *(["emit"] if self.emit == "on_update" else [])]
        others += ["results"] if self.results != "accumulating" else []
        others += ["fires_when"] if self.fires_when is not None else []
        if others:
            raise DeclarationError(
                f"fill is {self.fill!r}, for panes that fire once they are complete, with all their rows; leave out "
                f"{' and '.join(others)}"
            )

    def firing_declaration(self) -> dict[str, Any]:
        """Return the options that are not the default: none may change between two runs on one checkpoint."""
        condition = {"fires_when": self.fires_when, "then": self.then}
        fill = {} if self.fill is None else {"fill": self.fill, "fill_for_us": self.fill_for_us}
        return (
            super().firing_declaration() | fill | {n: option for n, option in condition.items() if option is not None}
        )


def require_emit(given: object) -> None:
    """Raise `DeclarationError` unless it is one of the choices of `emit`."""
    require_one_of(("on_complete", "on_close", "on_update"), given, "emit")


def _require_every(what: str, given: object) -> None:
    if given is not None and not isinstance(given, Every):
        raise DeclarationError(f"{what} is {given!r}; write {what}={_every_like(given)}")


def _every_like(given: object) -> str:
    """Return how an `Every` is written: of the text that was given, where that is a duration."""
    if isinstance(given, str):
        with suppress(DeclarationError):
            return repr(Every(given))
    return "Every('10 seconds') or Every(rows=100)"


def require_one_of(choices: tuple[str, ...], value: object, what: str) -> None:
    """Raise `DeclarationError` unless the value is one of these texts; `what` is its name in the error."""
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise DeclarationError(f"{what} is {value!r}; it must be {', '.join(others)} or {last}")
