"""The digest of code: the same for the same source, wherever and however it runs; another for anything that decides."""

from __future__ import annotations

import math
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.code_digest import digest, digests_of_parts

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''
import functools
import os
import re
import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum

import numpy as np

LIMITS = {"a": 1, "b": {"c", "d", "e"}}
WORDS = re.compile("[a-z]+")
LOCK = threading.Lock()


class Kind(Enum):
    """Kinds."""

    ODD = 1
    EVEN = 2


@dataclass(frozen=True)
class Limit:
    """A limit."""

    most: int = 5
    names: tuple = field(default_factory=tuple)

    def holds(self, value):
        """Whether it holds."""
        return value in {"x", "y", "z", "w"} or value < self.most


def helper(value):
    """Is called by the operator."""
    return LIMITS["a"] + value if WORDS.match("a") else os.environ.get("none")


def again(function):
    """A decorator."""

    @functools.wraps(function)
    def inner(*args, **options):
        return function(*args, **options)

    return inner


@functools.singledispatch
def shown(value):
    """Depends on the type."""
    return str(value)


@shown.register
def _(value: int):
    return helper(value)


class State(Enum):
    """Names, whose order in a set depends on the seed of hashes."""

    NEW, OPEN, HELD, DONE, LOST = "new", "open", "held", "done", "lost"

    def is_over(self):
        """Whether it ends a story."""
        return self in {State.DONE, State.LOST}


class Base:
    """A base class."""

    def relation(self):
        """A class that names this one."""
        return Related

    def handle(self, value):
        """Handle a value."""
        return [helper(one) for one in value if one is not Kind.ODD]


class Related(Base):
    """Refers to its base, which refers to it."""

    def base(self):
        """Its base."""
        return Base()


class Operator(Base):
    """What a user declares."""

    kinds = frozenset({Kind.ODD, Kind.EVEN})
    states = frozenset(State)
    related = {Base, Related, Limit}

    def __init__(self, limit=3, extra=None):
        """Keep what is given."""
        self.limit = limit
        self.rules = {Limit(): (1, 2.5), "every": timedelta(seconds=5)}
        self.mean = np.mean
        self.counts = Counter("aab")
        self.lock = threading.Lock()
        self.extra = extra

    @property
    def doubled(self):
        """Twice the limit."""
        return 2 * self.limit

    @again
    def handle(self, value):
        """Handle a value."""
        with LOCK:
            return super().handle(value), shown(value), self.handle, (lambda x: x * self.limit)


def made(threshold):
    """Return a closure."""

    def above(value):
        return value > threshold

    return above
'''
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import user_code
from state.code_digest import digest, digests_of_parts
print(digest(user_code.Operator), digests_of_parts(user_code.Operator()), digest(user_code.made(3)))
"""


def module(source: str = SOURCE, file: str = "user_code.py") -> ModuleType:
    """The module that this source is."""
    made = ModuleType("user_code")
    sys.modules["user_code"] = made  # where dataclasses look for it
    exec(compile(source, file, "exec"), vars(made))  # noqa: S102 -- our own source
    return made


def test_the_same_source_has_the_same_digest_in_every_process(tmp_path: Path) -> None:
    """Another folder, another process, another seed of Python's hashes; lines before it, and comments."""
    printed = set()
    for number, seed in enumerate(("0", "1", "2", "4", "5", "6", "77", "random")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "user_code.py").write_text("# a comment\n" * number + SOURCE)
        program = [sys.executable, "-c", PROGRAM, str(folder)]
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        printed.add(subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(printed) == 1


def test_code_that_has_run_has_the_digest_it_had_before() -> None:
    """Python adapts its instructions to what they are called with; the objects of the driver are only copied."""
    user = module()
    before = digest(user.Operator), digest(user.helper)
    for number in range(5000):
        user.helper(number)
        user.shown(number)
    assert (digest(user.Operator), digest(user.helper)) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2 * self.limit", "3 * self.limit"),
        ('LIMITS["a"] + value', 'LIMITS["a"] - value'),
        ('"a": 1', '"a": 2'),
        ('{"c", "d", "e"}', '{"c", "d", "f"}'),
        ('compile("[a-z]+")', 'compile("[a-y]+")'),
        ("frozenset({Kind.ODD, Kind.EVEN})", "frozenset({Kind.ODD})"),
        ("ODD = 1", "ODD = 3"),
        ("x * self.limit", "x / self.limit"),
        ("function(*args, **options)", "function(*args)"),
        ("    return helper(value)\n\n\nclass State", "    return value\n\n\nclass State"),
        ("if one is not Kind.ODD", "if one is not Kind.EVEN"),
        ("class Operator(Base)", "class Operator(Base, object)"),
    ],
)
def test_what_decides_a_result_changes_the_digest(old: str, new: str) -> None:
    """Methods, constants, globals, helpers, decorators, base classes, registered functions."""
    assert SOURCE.count(old) == 1
    assert digest(module().Operator) != digest(module(SOURCE.replace(old, new)).Operator)


def test_what_a_function_closes_over_and_an_object_holds_counts() -> None:
    """A threshold in a closure; an attribute, by its name."""
    user = module()
    assert digest(user.made(3)) == digest(user.made(3)) != digest(user.made(4))
    parts, changed = digests_of_parts(user.Operator()), digests_of_parts(user.Operator(limit=4))
    assert {name for name in parts if parts[name] != changed[name]} == {"limit"}
    assert (parts["limit"], changed["limit"]) == (3, 4)
    assert "hunter2" not in str(digests_of_parts(user.Operator(extra="hunter2")))  # a password, perhaps, and stored
    assert digest(user.Operator(extra=[user.Limit(1)])) != digest(user.Operator(extra=[user.Limit(2)]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (re.compile("[0-9]+").match, re.compile("[a-z]+").match),
        ({"a": 1}.get, {"a": 2}.get),
        ({"a"}.__contains__, {"b"}.__contains__),
        ("abc".startswith, "abd".startswith),
        (str.upper, str.lower),
        (int.__add__, int.__sub__),
        ((1).__add__, (2).__add__),
        (struct.Struct("<i").unpack, struct.Struct(">i").unpack),
        (np.add, np.maximum),
        (pa.scalar(1), pa.scalar(2)),
        (math.floor, math.ceil),
    ],
)
def test_functions_that_are_not_of_python_count_by_their_names_and_what_they_are_bound_to(
    one: object, other: object
) -> None:
    """As a limit they are as good as one in the user's own code."""
    assert digest(one) == digest(one) != digest(other)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=8,
)


@given(VALUES, st.sets(st.text() | st.integers(), max_size=5))
def test_a_copy_of_a_value_has_its_digest_and_another_value_another(value: Any, members: set[Any]) -> None:
    """Whatever a function closes over; written as source in another module, or in another order."""
    names: dict[str, Any] = {}
    exec(f"def f():\n    return {value!r}, {members!r}\n", names)  # noqa: S102 -- literals
    other: dict[str, Any] = {}
    exec(f"\n\n# elsewhere\ndef f():\n    return {value!r}, {members!r}\n", other)  # noqa: S102 -- literals
    assert digest(names["f"]) == digest(other["f"])
    backwards: set[Any] = set()
    backwards.update(sorted(members, key=repr, reverse=True))
    assert digest((value, members)) == digest((eval(repr(value)), backwards))  # noqa: S307 -- a literal
    assert digest(value) != digest([value])
