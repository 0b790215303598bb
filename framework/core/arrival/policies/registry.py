"""The implementation of each declared policy: one line a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from panekeeper.framework.core.arrival.policies.all_of import AllOfPolicy
from panekeeper.framework.core.arrival.policies.any_of import AnyOfPolicy
from panekeeper.framework.core.arrival.policies.count import CountPolicy
from panekeeper.framework.core.arrival.policies.delta import DeltaPolicy
from panekeeper.framework.core.arrival.policies.partition_limits import (
    PartitionAgePolicy,
    PartitionCountPolicy,
    TupleCountPolicy,
)
from panekeeper.framework.core.arrival.policies.protocol import RunningPolicy
from panekeeper.framework.core.arrival.policies.punctuation import PunctuationPolicy
from panekeeper.framework.core.arrival.policies.time import TimePolicy
from panekeeper.framework.core.arrival.policies.user import UserRunningPolicy
from panekeeper.framework.declarations.errors import DeclarationError
from panekeeper.framework.declarations.policies import (
    AllOf,
    AnyOf,
    Count,
    Delta,
    PartitionAge,
    PartitionCount,
    Policy,
    Punctuation,
    Time,
    TupleCount,
    UserPolicy,
)
from panekeeper.framework.declarations.windows import ArrivalWindow, row_policies

RUNNING_POLICIES: dict[type[Policy], Callable[[Any], RunningPolicy]] = {
    Count: CountPolicy,
    Time: TimePolicy,
    AnyOf: AnyOfPolicy,
    AllOf: AllOfPolicy,
    Delta: DeltaPolicy,
    Punctuation: PunctuationPolicy,
    PartitionAge: PartitionAgePolicy,
    PartitionCount: PartitionCountPolicy,
    TupleCount: TupleCountPolicy,
    UserPolicy: UserRunningPolicy,
}
"""Declared class -> what makes its implementation. A subclass has the implementation of its base class."""


def running_policy(declared: object) -> RunningPolicy:
    """Return the implementation of a declared policy.

    Raises:
        DeclarationError: the class of the policy has no implementation.
    """
    for base in type(declared).__mro__:
        if base in RUNNING_POLICIES:
            return RUNNING_POLICIES[base](declared)
    raise DeclarationError(
        f"the policy {declared!r} has no implementation: derive {type(declared).__name__} from panekeeper.UserPolicy, "
        "or add it to RUNNING_POLICIES in framework/core/arrival/policies/registry.py"
    )


def require_implementations(window: ArrivalWindow) -> None:
    """Raise `DeclarationError` unless each policy of the window has an implementation."""
    for policy in (*row_policies(window), window.partition_eviction):
        if policy is not None:
            running_policy(policy)
