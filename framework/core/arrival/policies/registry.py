"""The implementation of each declared policy: one line a policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from framework.core.arrival.policies.count import CountPolicy
from framework.core.arrival.policies.delta import DeltaPolicy
from framework.core.arrival.policies.protocol import RunningPolicy
from framework.core.arrival.policies.punctuation import PunctuationPolicy
from framework.core.arrival.policies.time import TimePolicy
from framework.core.arrival.policies.user import UserRunningPolicy
from framework.declarations.errors import DeclarationError
from framework.declarations.policies import Count, Delta, Punctuation, Time
from framework.declarations.user_policy import UserPolicy

RUNNING_POLICIES: dict[type, Callable[[Any], RunningPolicy]] = {
    Count: CountPolicy,
    Time: TimePolicy,
    Delta: DeltaPolicy,
    Punctuation: PunctuationPolicy,
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
