"""The base class of policies that a user writes (docs/add-a-policy.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.parameters import declared_parameters
from panekeeper.framework.declarations.policy import Policy, Role

METHODS = {Role.TUMBLE: "tumble", Role.EVICT: "evict", Role.FIRE: "fire", Role.EVICT_PARTITIONS: "evict_partitions"}
"""Role -> the method of a `UserPolicy` that gives it this role."""


@dataclass(frozen=True)
class PartitionUse:
    """A partition, as a partition eviction of a user's own gets it.

    Attributes:
        rows: how many rows it has, with those that wait for a window batch; none just after it tumbled.
        inserted_us: arrival time of its newest row, in microseconds since the epoch.
    """

    rows: int
    inserted_us: int


class UserPolicy(Policy):
    """A policy of your own: derive a frozen dataclass, and define the methods of its roles.

    `tumble` makes it an eviction policy of tumbling windows, `evict` one of sliding windows, `fire` a trigger of
    sliding windows, `evict_partitions` a partition eviction. All but the last need a field `attribute`. The methods are
    called on the workers, for one row after the other of a partition in arrival order, and must depend on their
    arguments and the fields alone: then results are the same however the stream is split into micro-batches, and after
    every restart. An instance must be picklable.

    A value is that of the column `attribute`, which holds integers, floats or timestamps; of a timestamp, its
    microseconds since the epoch. A state is one number, stored with each checkpoint as a double, or None.

    Attributes:
        attribute: the column whose values `tumble`, `evict` and `fire` receive.
        tumbles_after: for `tumble`: whether the row that fills the window is its last one (True) or opens the next
            window (False, the default).

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Sum(UserPolicy):
    ...     attribute: str
    ...     limit: float
    ...     tumbles_after = True
    ...     def tumble(self, state, value):
    ...         total = (state or 0.0) + value
    ...         return total >= self.limit, total
    >>> Sum("fare", 100.0).declaration()
    {'policy': 'user', 'class': 'Sum', 'parameters': {'attribute': 'fare', 'limit': 100.0}}
    """

    spans_partitions: ClassVar = True

    attribute: str
    tumbles_after: ClassVar[bool] = False

    def tumble(self, state: float | None, value: float) -> tuple[bool, float | None]:
        """Return whether this row fills the window, and the state after the row.

        Called once for each row. `state` is what the call for the row before returned; None for the first row of a
        window. Where the row opens the next window it is called again for it, with the state None. A window without
        rows does not tumble.
        """
        raise TypeError(f"{type(self).__name__} does not define tumble(state, value)")

    def evict(self, content: Sequence[float], value: float) -> int:
        """Return how many of the oldest rows leave before a row with this value is inserted.

        Called once for each row. `content` are the values of the rows in the window, the oldest first.
        """
        raise TypeError(f"{type(self).__name__} does not define evict(content, value)")

    def fire(self, state: float | None, value: float) -> tuple[bool, float | None]:
        """Return whether the window fires with this row, which is inserted by then, and the state after the row.

        Called once for each row. `state` is what the call for the row before returned; None for the first row of a
        partition.
        """
        raise TypeError(f"{type(self).__name__} does not define fire(state, value)")

    def evict_partitions(self, partitions: Sequence[PartitionUse]) -> Sequence[int]:
        """Return the positions, in `partitions`, of those that are evicted, in the order in which they are.

        Called once for each row, after its insertion and what follows from it. `partitions` are in the order of their
        newest rows: the last one has the row.
        """
        raise TypeError(f"{type(self).__name__} does not define evict_partitions(partitions)")

    def check_role(self, role: Role, what: str) -> None:
        """Raise `DeclarationError` unless the method of the role is defined, and the column is named that it reads."""
        method = METHODS[role]
        attribute: object = getattr(self, "attribute", None)
        if role is not Role.EVICT_PARTITIONS and (not isinstance(attribute, str) or not attribute):
            raise DeclarationError(
                f"{what} is {self!r}; its attribute is {attribute!r} and must be the name of a column"
            )
        if getattr(type(self), method) is getattr(UserPolicy, method):
            raise DeclarationError(f"{what} is {self!r}; to {role.value} it must define {method}()")

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint: the class and its plain fields."""
        return {"policy": "user", "class": type(self).__qualname__, "parameters": declared_parameters(self)}
