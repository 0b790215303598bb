"""What every policy declares: its roles in a window, the column that it reads, and what must not change.

A window takes a policy by its role and has no list of them: a new policy is one class (docs/add-a-policy.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from typing import Any, ClassVar

from panekeeper.framework.declarations.errors import DeclarationError


class Role(Enum):
    """What a policy can do in a window; the value says it in an error."""

    TUMBLE = "evict from a tumbling window"
    EVICT = "evict from a sliding window"
    FIRE = "be the trigger of a sliding window"
    EVICT_PARTITIONS = "evict partitions"


class Policy:
    """The base class of all policies. One that has a field `attribute` reads this column when it evicts rows or fires.

    Attributes:
        declared_as: the name of the policy in a declaration, and in a vector of the test kit.
        policy_roles: what the policy can do.
        column_types: the types that the column `attribute` may have, as Spark names them.
        spans_partitions: whether a partition eviction compares partitions with each other, so that one key group must
            have all of them (docs/semantics.md section 10.1).
    """

    declared_as: ClassVar[str] = ""
    policy_roles: ClassVar[frozenset[Role]] = frozenset()
    column_types: ClassVar[frozenset[str]] = frozenset(
        {"timestamp", "byte", "short", "integer", "long", "float", "double"}
    )
    spans_partitions: ClassVar[bool] = False

    def check_role(self, role: Role, what: str) -> None:
        """Raise `DeclarationError` unless the policy can have this role; `what` is its place in the declaration."""
        if role not in self.policy_roles:
            raise DeclarationError(_refusal(self, role, what))

    def check_column(self, column_type: str) -> None:
        """Raise `DeclarationError` unless the fields fit a column of this type, one of `column_types`."""

    def declaration(self) -> dict[str, Any]:
        """Return what must not change between two runs on one checkpoint: the name and the fields."""
        declared: Any = self  # a subclass is a dataclass, which a type checker cannot see here
        return {"policy": self.declared_as} | {field.name: getattr(self, field.name) for field in fields(declared)}


def require_role(policy: Any, role: Role, what: str) -> None:
    """Raise `DeclarationError` unless this is a policy that can have the role; `what` is its place in the error."""
    if not isinstance(policy, Policy):
        raise DeclarationError(_refusal(policy, role, what))
    policy.check_role(role, what)


def column_read_by(policy: Policy) -> str | None:
    """Return the column that a policy reads when it evicts rows or fires; None if it reads none."""
    column: str | None = getattr(policy, "attribute", None)
    return column


def _refusal(policy: Any, role: Role, what: str) -> str:
    built_in = ", ".join(each.__name__ for each in _subclasses(Policy) if role in each.policy_roles)
    return f"{what} is {policy!r}, which cannot {role.value}: use {built_in} or a UserPolicy"


def _subclasses(base: type[Policy]) -> Iterator[type[Policy]]:
    for each in base.__subclasses__():
        yield each
        yield from _subclasses(each)
