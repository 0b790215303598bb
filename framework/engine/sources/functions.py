"""The Python functions of a stream, such as `udf`: their workers need the code and the packages of the program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from panekeeper.framework.engine.session.python_workers import require_python, worker_variables
from panekeeper.framework.engine.sources.streams import kind_of, nodes, plan_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEEDED = ("pyspark", "pyarrow")


def prepare_functions(df: DataFrame) -> None:
    """Let the functions of a stream find the code of this program as it is now, and not as when they were made."""
    variables = worker_variables(df.sparkSession.sparkContext)
    for function in _functions_of(df):
        function.envVars().putAll(variables)
        require_python(df.sparkSession, str(function.pythonExec()), _NEEDED)


def _functions_of(df: DataFrame) -> Iterator[Any]:
    """Yield the Python functions in the plan of a stream."""
    jvm: Any = df.sparkSession._jvm  # noqa: SLF001 -- a plan has no public form
    pattern = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()
    left = [
        expression
        for node in nodes(plan_of(df))
        if node.containsPattern(pattern)
        for expression in _all(node.expressions())
    ]
    while left:
        expression = left.pop()
        if expression.containsPattern(pattern):
            left += _all(expression.children())
            if kind_of(expression) == "PythonUDF":
                yield expression.func()


def _all(sequence: Any) -> list[Any]:
    return [sequence.apply(number) for number in range(sequence.size())]
