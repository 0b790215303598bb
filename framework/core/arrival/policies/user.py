"""`UserPolicy`: a policy that a user writes, a Python call for each row.

Where a call raises, the row is treated as if the policy had returned that nothing happens and that the state stays, and
the error goes to the quarantine (docs/semantics.md section 12).
"""

from __future__ import annotations

import numpy as np

from panekeeper.framework.core.arrival.event_table import Cause, EventTable, Phase
from panekeeper.framework.core.arrival.partitions import Partitions, PolicyError
from panekeeper.framework.core.arrival.policies.protocol import (
    AllRows,
    NewValues,
    RoundEviction,
    RowEviction,
    RunningPolicy,
    Tumbles,
    fired_after,
    make_tumbles,
)
from panekeeper.framework.core.arrival.round import RoundRows, count_new_rows
from panekeeper.framework.declarations.errors import InputError
from panekeeper.framework.declarations.events import Reason
from panekeeper.framework.declarations.policies import PartitionUse, UserPolicy


class UserRunningPolicy(RunningPolicy):
    """Call the user's `tumble`, `evict` or `fire` for each new row, partition by partition.

    `evict_partitions` is called for each new row, too, in arrival order: each row is a round of its own.
    """

    stores_own_numbers = True

    def __init__(self, declared: UserPolicy) -> None:
        self._declared = declared

    def tumbles(self, round_rows: RoundRows, values: NewValues, partitions: Partitions) -> Tumbles:
        """Tumble before or after each row that fills the window, as the policy declares."""
        after = self._declared.tumbles_after
        states, high = partitions.oldest, np.zeros(len(round_rows.old_counts), dtype=np.int64)
        tumbled: list[int] = []
        pairs = zip(round_rows.code.tolist(), round_rows.position.tolist(), self._numbers(values), strict=True)
        for row, (code, position, value) in enumerate(pairs):
            full, states[code] = self._decision("tumble", states[code], value, row, round_rows, partitions)
            if full and after:
                states[code], high[code] = None, position + 1
                tumbled.append(row)
            elif full and position > high[code]:  # a window without rows does not tumble
                _, states[code] = self._decision("tumble", None, value, row, round_rows, partitions)
                high[code] = position
                tumbled.append(row)
        rows = np.array(tumbled, dtype=np.int64)
        code, position, at = round_rows.rows
        phase = Phase.TRIGGER if after else Phase.EVICTION
        own = position[rows]
        return make_tumbles(code[rows], own + after, at[rows], own, cause=Cause.ROW, phase=phase, reason=Reason.POLICY)

    def eviction(self, round_rows: RoundRows, rows: AllRows, partitions: Partitions) -> RoundEviction:
        """Evict as many of the oldest rows as the policy returns, before each new row."""
        return UserEviction(self._declared, round_rows, rows, partitions)

    def firings(
        self, round_rows: RoundRows, values: NewValues, eviction: RoundEviction, partitions: Partitions
    ) -> list[EventTable]:
        """Fire after each row for which the policy returns True, with this row."""
        states, fired = partitions.base, []
        last: dict[int, int] = {}
        for row, (code, value) in enumerate(zip(round_rows.code.tolist(), self._numbers(values), strict=True)):
            fires, states[code] = self._decision("fire", states[code], value, row, round_rows, partitions)
            if fires:
                fired.append(row)
                last[code] = row
        rows = np.array(fired, dtype=np.int64)
        count_new_rows(round_rows, partitions)
        for own, row in last.items():
            partitions.since[own] = round_rows.sizes[own] - round_rows.position[row] - 1
        return [fired_after(round_rows, rows, eviction, Reason.POLICY)]

    def rows_within_limit(self, codes: np.ndarray, begin: int, partitions: Partitions) -> int:
        """Return the position after the next row: any may evict."""
        return begin + 1

    def partitions_over_limit(self, partitions: Partitions) -> np.ndarray:
        """Return the partitions that the policy evicts."""
        codes = partitions.by_newest_row
        rows, inserted = partitions.size[codes].tolist(), partitions.last_at[codes].tolist()
        try:
            uses = [PartitionUse(*use) for use in zip(rows, inserted, strict=True)]
            return codes[_checked_positions(self._declared, uses)]
        except Exception as error:  # noqa: BLE001 -- whatever the user's code raises
            where = f"{type(self._declared).__name__}.evict_partitions()"
            partitions.policy_errors.append(PolicyError(int(codes[-1]), inserted[-1], where, error))
            return codes[:0]

    def _decision(
        self,
        method: str,
        state: float | None,
        value: float,
        row: int,
        round_rows: RoundRows,
        partitions: Partitions,
    ) -> tuple[bool, float | None]:
        """Return what the user's method returns for a row; (False, `state`) if it raises."""
        try:
            return self._checked(getattr(self._declared, method)(state, value))
        except Exception as error:  # noqa: BLE001 -- whatever the user's code raises
            _note(partitions, round_rows, row, f"{type(self._declared).__name__}.{method}()", value, error)
            return False, state

    def _checked(self, returned: tuple[bool, float | None]) -> tuple[bool, float | None]:
        """Return what the user's method returned, its state as a float: what a restart would read from the store.

        Raises:
            InputError: the state cannot be stored.
        """
        decision, state = bool(returned[0]), returned[1]
        if state is None:
            return decision, None
        if isinstance(state, bool) or not isinstance(state, int | float):
            name = type(self._declared).__name__
            raise InputError(
                f"{name} returned the state {state!r}; a state is a number or None, to be stored as double"
            )
        return decision, float(state)

    def _numbers(self, values: NewValues) -> list[float]:
        return _as_numbers(values(self._declared.attribute))


class UserEviction(RowEviction):
    """The begins that follow from how many rows the policy evicts before each new row."""

    def __init__(self, policy: UserPolicy, round_rows: RoundRows, rows: AllRows, partitions: Partitions) -> None:
        super().__init__(round_rows, partitions.full)
        values = _as_numbers(rows.column(policy.attribute))
        begin = np.zeros(len(round_rows.old_counts), dtype=np.int64)
        pairs = zip(round_rows.code.tolist(), round_rows.position.tolist(), strict=True)
        for row, (code, position) in enumerate(pairs):
            first, low = int(rows.offsets[code]), int(begin[code])
            content, value = values[first + low : first + position], values[first + position]
            try:
                count = _checked_count(policy, content, value)
            except Exception as error:  # noqa: BLE001 -- whatever the user's code raises
                where = f"{type(policy).__name__}.evict()"
                _note(partitions, round_rows, row, where, value, error)
                count = 0
            self.begin_before[row], self.begin_after[row] = low, low + count
            begin[code] += count


def _checked_count(policy: UserPolicy, content: list[float], value: float) -> int:
    held = len(content)  # before the policy gets the list, which it may change
    count = policy.evict(content, value)
    if not 0 <= count <= held or count != int(count):
        raise InputError(
            f"{type(policy).__name__}.evict() returned {count!r} for a content of {held} rows; "
            "it must return how many of them leave"
        )
    return int(count)


def _checked_positions(policy: UserPolicy, uses: list[PartitionUse]) -> list[int]:
    held = len(uses)
    positions = list(policy.evict_partitions(uses))
    if len(set(positions)) < len(positions) or not set(positions) <= set(range(held)):
        raise InputError(
            f"{type(policy).__name__}.evict_partitions() returned {positions!r} for {held} partitions; it must "
            "return the positions of those that are evicted, each once"
        )
    return positions


def _note(partitions: Partitions, round_rows: RoundRows, row: int, where: str, value: float, error: Exception) -> None:
    at_us = int(round_rows.rows[2][row])
    given = f" for the value {value!r}"
    partitions.policy_errors.append(PolicyError(int(round_rows.code[row]), at_us, where, error, given))


def _as_numbers(values: np.ndarray) -> list[float]:
    """Return values as Python numbers: of timestamps, microseconds since the epoch."""
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]").astype(np.int64)
    numbers: list[float] = values.tolist()
    return numbers
