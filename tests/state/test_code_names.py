"""The digest of code in several modules: what it imports, which values of which classes it uses, in any process."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from state.code_digest import digest, digests_of_parts

ROOT = Path(__file__).resolve().parents[2]
USER_FILES = {
    "user_kinds.py": """
import functools
from collections import defaultdict, deque, namedtuple
from enum import Enum
from types import MappingProxyType, SimpleNamespace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

class Limit(NamedTuple):
    most: int
    def holds(self, value): return value < self.most + 1001
class Kind(Enum):
    ODD = 1
    def holds(self, value): return value < 1002
class Table(dict):
    def holds(self, value): return value < 1003
class Made(type):
    def holds(cls, value): return value < 1004
class OfMade(metaclass=Made):
    pass
class Partial:
    def holds(self, most, value): return value < most
    by_most = functools.partialmethod(holds, 1005)
DEFAULT = defaultdict(lambda: 1006)
SPACE = SimpleNamespace(holds=lambda value: value < 1007)
PROXY = MappingProxyType({"holds": lambda value: value < 1008})
QUEUE = deque([lambda value: value < 1009])
LONG = np.where(np.arange(5000) == 2500, 1010, 0)
OBJECTS = np.array([lambda value: value < 1011], dtype=object)
COLUMN = pa.array([1012 if at == 2500 else 0 for at in range(5000)])
FRAME = pa.table({"value": COLUMN}).to_pandas()
FRAME.loc[2500, "value"] = 1013
""",
    "user_package/__init__.py": "",
    "user_package/deep/__init__.py": "",
    "user_package/deep/limits.py": "def holds(value): return value < 1014",
    "user_package/sibling.py": "def holds(value): return value < 1015",
    "user_package/job.py": """
def relative(value):
    from .sibling import holds
    return holds(value)
""",
    "user_late.py": "def holds(value): return value < 1016",
    "user_job.py": """
import user_package.deep.limits
from user_kinds import *
from user_package.job import relative

VALUES = [Limit(1), Kind.ODD, Table(), OfMade, Partial(), DEFAULT, SPACE, PROXY, QUEUE, LONG, OBJECTS, COLUMN, FRAME]

def late(value):
    def inner():
        from user_late import holds
        return holds(value)
    return inner()

class Operator:
    def __init__(self):
        self.frame, self.column, self.values = FRAME, FRAME["value"], VALUES

def operator(value):
    return VALUES, user_package.deep.limits.holds(value), relative(value), late(value)
""",
}
PARTS_PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
from tests.state.test_code_names import imported_digests
print(imported_digests())
"""


def imported_digests() -> tuple[object, ...]:
    """The digests of the code that is on the path, imported anew."""
    for name in [name for name in sys.modules if name.startswith("user_")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    user = importlib.import_module("user_job")
    return digest(user.operator), digests_of_parts(user.Operator())


def write_files(folder: Path, files: dict[str, str]) -> Path:
    """Write the modules of a user's program."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_no_address_and_no_order_of_a_set_is_in_the_digest_of_a_value(tmp_path: Path) -> None:
    """Containers of functions, arrays of objects, tables of other packages: in two processes, elsewhere."""
    printed = set()
    for seed in ("1", "2"):
        folder = write_files(tmp_path / seed, USER_FILES)
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        program = [sys.executable, "-c", PARTS_PROGRAM, str(folder)]
        printed.add(subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(printed) == 1


def test_each_part_of_what_a_function_uses_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of values, metaclasses, containers of functions, long arrays, and modules imported as a function runs."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    seen = []
    for number in ("none", *map(str, range(1001, 1017))):
        changed = {file: text.replace(number, "9999") for file, text in USER_FILES.items()}
        assert (changed == USER_FILES) == (number == "none")
        folder = write_files(tmp_path / number, changed)
        with monkeypatch.context() as patched:
            patched.syspath_prepend(folder)
            seen.append(str(imported_digests()))
    assert len(set(seen)) == len(seen)
