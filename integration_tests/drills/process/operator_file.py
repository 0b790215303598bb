"""The code of an operator in a file of its own, like that of a user: what it computes counts, not only its name."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from integration_tests.drills.process import operators
from integration_tests.drills.process.operators import RunningTotalOperator

_MODULE = "drill_operator"
_SUM = "total=self.so_far[event.key][1]"


def write_operator(path: Path, *, is_negative: bool) -> None:
    """Write the code of `RunningTotalOperator`.

    Args:
        path: the new file.
        is_negative: whether it emits the negative of each sum: one line differs.
    """
    text = Path(operators.__file__).read_text(encoding="utf-8")
    before, after = text.split(_SUM)
    path.write_text(f"{before}{_SUM.replace('=', '=-') if is_negative else _SUM}{after}", encoding="utf-8")


def load_operator(path: Path) -> type[RunningTotalOperator]:
    """Return the operator of a file that `write_operator` has written. The workers get its code with it."""
    from pyspark import cloudpickle

    spec = spec_from_file_location(_MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[_MODULE] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    found: type[RunningTotalOperator] = module.RunningTotalOperator
    return found
