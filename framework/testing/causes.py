"""Why do results depend on where micro-batches end? The likeliest cause, by what is seen when both ways are played."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from panekeeper.framework.core.job_spec import JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.state_handlers import BatchCheckpoint, StateHandlerCalls
from panekeeper.framework.declarations.operator import OperatorWithListeners
from panekeeper.framework.declarations.user_aggregate import UserAggregate
from panekeeper.framework.testing.run_in_memory import JobOfScript
from panekeeper.state.handler import StateHandler

if TYPE_CHECKING:
    from panekeeper.framework.core.group_batch import GroupBatch
    from panekeeper.framework.core.steps import BatchOutcome
    from panekeeper.framework.testing.scripted_job import ScriptedJob
    from panekeeper.state.store import KeyGroupStore

_Attribute = tuple[int, str]
"""The place of an object among those of the user, and the name of one of its attributes."""


def likeliest_cause(job: ScriptedJob, plays_alike: Callable[[], bool]) -> str:
    """Return the cause as a sentence, empty if none is seen.

    Args:
        job: with the script whose results differ from those of the other way to play it.
        plays_alike: plays the same script again, and returns whether it has the same results.
    """
    if not plays_alike():
        return (
            "the same script has other results when it is played again, so something is random, reads a clock, or is "
            "kept in a module or class, which all micro-batches share"
        )
    watched = _Watched(job)
    watched.play()
    if watched.lost:
        return watched.lost
    return _by_declaration(watched.spec)


def _by_declaration(spec: JobSpec) -> str:
    for port in spec.ports:
        for part in port.parts.values():
            if getattr(part.window, "emit", None) == "on_update":
                return (
                    'emit="on_update" fires after each micro-batch, so its firings depend on them; '
                    "assert_survives_restarts keeps the micro-batches of the script"
                )
    return ""


class _Watched(JobOfScript):
    """Compares the attributes of the user's objects at the end of a micro-batch with those at the begin of the next.

    Attributes:
        lost: the first attribute that is another one, as a sentence; empty if there is none.
    """

    def __init__(self, script: ScriptedJob) -> None:
        super().__init__(script)
        self.lost = ""
        self._before: dict[int, dict[_Attribute, Any]] = {}

    def run_group(self, group: int, batch: GroupBatch) -> BatchOutcome:
        spec, store = self.new_spec(), self.groups[group].store
        begun = _Runner(self.new_spec(), store.copy(), batch.checkpoint)
        begun.run([])  # as its objects are before the first event
        now = _attributes(begun.used)
        for (place, name), value in self._before.get(group, {}).items():
            if not self.lost and not _is_same(value, now.get((place, name))):
                self.lost = _said_of(_objects(begun.used)[place], name)
        runner = _Runner(spec, store, batch.checkpoint)
        outcome = batch.run_by(runner)
        self._before[group] = _attributes(runner.used)
        return outcome


class _Runner(KeyGroupRunner):
    """Keeps the declaration with the objects that were used, of which a key group makes copies.

    Attributes:
        used: that declaration.
    """

    def __init__(self, spec: JobSpec, store: KeyGroupStore, checkpoint: BatchCheckpoint | None) -> None:
        super().__init__(spec, store, checkpoint)
        self.used = spec

    def _run(self, spec: JobSpec, steps: Any, lifecycle: StateHandlerCalls | None) -> BatchOutcome:
        self.used = spec
        return super()._run(spec, steps, lifecycle)


def _objects(spec: JobSpec) -> list[Any]:
    """Return the objects of the user's that may have attributes, each once, in one order."""
    return list({id(owner): owner for owner in _each_object(spec)}.values())


def _each_object(spec: JobSpec) -> Iterator[Any]:
    if isinstance(spec.operator, OperatorWithListeners):
        yield from (spec.operator.operator, *spec.operator.listeners)
    elif spec.operator is not None:
        yield spec.operator
    yield from spec.handlers
    for part in spec.parts.values():
        yield from (aggregate.user for aggregate in (part.aggregates or {}).values() if aggregate.user is not None)


def _attributes(spec: JobSpec) -> dict[_Attribute, Any]:
    """Return a copy of all attributes of the user's objects; without those that cannot be copied."""
    attributes: dict[_Attribute, Any] = {}
    for place, owner in enumerate(_objects(spec)):
        for name, value in getattr(owner, "__dict__", {}).items():
            try:
                attributes[place, name] = cloudpickle.loads(cloudpickle.dumps(value))  # type: ignore[no-untyped-call]
            except Exception:  # noqa: BLE001, S112 -- of the user's objects: whatever they raise
                continue
    return attributes


def _is_same(old_value: Any, new_value: Any) -> bool:
    """Whether two values are equal; of those that cannot say it, whether they are stored as the same bytes."""
    try:
        if bool(old_value == new_value):
            return True
    except Exception:  # noqa: BLE001, S110 -- an array is neither
        pass
    return bool(cloudpickle.dumps(old_value) == cloudpickle.dumps(new_value))  # type: ignore[no-untyped-call]


def _said_of(owner: Any, name: str) -> str:
    what = f"the attribute {name!r} of {type(owner).__name__} was lost between micro-batches"
    if isinstance(owner, UserAggregate):
        return f"{what}; keep what lasts in the state, which zero(), add() and merge() return"
    if isinstance(owner, StateHandler):
        return f"{what}; checkpoint() must write it and reset() must read it back"
    return f"{what}; make the class a StateHandler, too, whose checkpoint() writes it and whose reset() reads it back"
