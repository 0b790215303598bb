"""The base class of policies that a user writes (docs/add-a-policy.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from framework.declarations.errors import DeclarationError
from framework.declarations.parameters import declared_parameters

ROLES = {"tumble": "evict from a tumbling window", "evict": "evict from a sliding window", "fire": "be a trigger"}
"""Method of a `UserPolicy` -> what a policy with this method can do."""


class UserPolicy:
    """A policy of your own: derive a frozen dataclass with a field `attribute`, and define the methods of its roles.

    `tumble` makes it an eviction policy of tumbling windows, `evict` one of sliding windows, `fire` a trigger of
    sliding windows. The methods are called on the workers, for one row after the other of a partition in arrival
    order, and must depend on their arguments and the fields alone: then results are the same however the stream is
    cut into micro-batches, and after every restart. An instance must be picklable.

    A value is that of the column `attribute`, which holds integers, floats or timestamps; of a timestamp, its
    microseconds since the epoch. A state is one number, stored with each checkpoint as a double, or None.

    Attributes:
        attribute: the column whose values the methods receive.
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

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint: the class and its plain fields."""
        return {"policy": "user", "class": type(self).__qualname__, "parameters": declared_parameters(self)}


def require_role(policy: UserPolicy, method: str, what: str) -> None:
    """Raise `DeclarationError` unless the policy names a column and defines the method; `what` is its place."""
    attribute: object = getattr(policy, "attribute", None)
    if not isinstance(attribute, str) or not attribute:
        raise DeclarationError(f"{what} is {policy!r}; its attribute is {attribute!r} and must be the name of a column")
    if getattr(type(policy), method) is getattr(UserPolicy, method):
        raise DeclarationError(f"{what} is {policy!r}; to {ROLES[method]} it must define {method}()")
