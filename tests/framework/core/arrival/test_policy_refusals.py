"""Which policies a window takes: each that has an implementation, in the roles that it can have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from panekeeper import (
    Batched,
    Count,
    DeclarationError,
    PartitionAge,
    Sliding,
    Time,
    Tumbling,
    TupleCount,
    UserPolicy,
    agg,
)
from panekeeper.framework.core.arrival.policies.registry import RUNNING_POLICIES, require_implementations
from panekeeper.framework.declarations.policies import Policy, Role
from panekeeper.framework.declarations.windows import ArrivalWindow
from panekeeper.state.store import MemoryStore
from tests.framework.core.quarantine_batches import job, rows, run


@dataclass(frozen=True)
class Unknown:
    """No policy."""

    size: int


@dataclass(frozen=True)
class Unregistered(Policy):
    """A policy that says what it can do, and that has no implementation."""

    policy_roles: ClassVar = frozenset(Role)

    size: int


def places_of(policy: Any) -> list[Callable[[], ArrivalWindow]]:
    """Declarations of windows with a policy in each of its places."""
    return [
        lambda: Tumbling(policy),
        lambda: Sliding(evict=policy),
        lambda: Sliding(evict=Count(1), trigger=policy),
        lambda: Tumbling(Count(1), partition_eviction=policy),
        lambda: Batched(retain=2, every=2, partition_eviction=policy),
    ]


def declared_policies(base: type[Policy] = Policy) -> set[type[Policy]]:
    """The classes of the package that say what a policy of them can do."""
    found = {each for each in base.__subclasses__() if each.__module__.startswith("panekeeper.framework.")}
    return {each for each in found if each.policy_roles} | {
        deeper for each in found for deeper in declared_policies(each)
    }


def test_every_policy_that_can_be_declared_has_an_implementation() -> None:
    """And there are no others."""
    assert declared_policies() | {UserPolicy} == set(RUNNING_POLICIES)


@pytest.mark.parametrize("declare", places_of(Unknown(1)))
def test_what_is_no_policy_is_refused_where_it_is_declared(declare: Callable[[], ArrivalWindow]) -> None:
    """It never becomes a window that does not fire; the error names the policies that can be there."""
    with pytest.raises(DeclarationError, match=r"Unknown\(size=1\), which cannot .* or a UserPolicy"):
        declare()


@pytest.mark.parametrize("declare", places_of(Unregistered(1)))
def test_a_policy_without_an_implementation_is_refused_before_a_job_starts(
    declare: Callable[[], ArrivalWindow],
) -> None:
    """And by the window itself, with its first row."""
    with pytest.raises(DeclarationError, match=r"Unregistered.* has no implementation"):
        require_implementations(declare())
    with pytest.raises(DeclarationError, match=r"Unregistered.* has no implementation"):
        run(job(declare(), n=agg.count()), MemoryStore(), rows(("a", 1)))


@pytest.mark.parametrize(("policy", "place"), [(PartitionAge(1), 0), (TupleCount(1), 2), (Count(1), 3), (Time(1), 4)])
def test_a_built_in_policy_in_a_role_that_it_cannot_have_is_refused(policy: Policy, place: int) -> None:
    """Where the window is declared."""
    with pytest.raises(DeclarationError, match="which cannot"):
        places_of(policy)[place]()
