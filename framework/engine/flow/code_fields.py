"""Which code decides the fate of a row: what two runs compare before one completes a batch of the other.

Beside the declaration that a checkpoint pins for good, this has what may change between two batches, but not within
one: rules, order, settings of SQL, and the code of the user's own classes and functions, as far as Python shows it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from framework.declarations.operator import OperatorWithListeners
from framework.declarations.user_policy import UserPolicy
from framework.declarations.windows import row_policies
from framework.engine.sources.plan import STARTING, plan_digest, source_digest, starting_digest
from state.checkpoint.job_record import installed_versions
from state.code_digest import digest, digests_of_parts

if TYPE_CHECKING:
    from framework.core.job_spec import JobSpec
    from framework.engine.flow.pipeline import InputPort, Pipeline

_PACKAGES = ("panekeeper", "pyspark")
_SETTINGS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
_OTHER_SETTINGS = re.compile(
    r"spark\.sql\.(legacy\.|parser\.|decimalOperations\.|json|csv\.|xml\.|files\.ignore"
    r"|(parquet|orc|avro)\.(?!compression|enableVectorized|columnarReader|filterPushdown|output)"
    r"|(caseSensitive|mapKeyDedupPolicy|timestampType|columnNameOfCorruptRecord)$).*"
)
"""Further settings by which SQL and Spark's readers of files compute other values; most sessions set none of them."""


def code_of(pipeline: Pipeline) -> dict[str, Any]:
    """Return the code of a job, by field. The same declaration gives the same fields in each process.

    Args:
        pipeline: the computation.
    """
    session = pipeline.intake.df.sparkSession
    versions = installed_versions()
    fields: dict[str, Any] = {name: versions.get(name) for name in _PACKAGES}
    fields["python"] = "{}.{}".format(*sys.version_info)
    fields |= {name: session.conf.get(name, None) for name in _SETTINGS}
    fields |= {name: value for name, value in session.conf.getAll.items() if _OTHER_SETTINGS.fullmatch(name)}
    for number, port in enumerate(pipeline.ports):
        prefix = f"port {number}: " if pipeline.other_ports else ""
        fields |= {f"{prefix}{name}": value for name, value in _port_fields(port).items()}
    for name, part in _user_objects(pipeline.spec):
        fields |= {f"{name}{'.' if field else ''}{field}": value for field, value in digests_of_parts(part).items()}
    return fields


def _port_fields(port: InputPort) -> dict[str, Any]:
    intake = port.intake
    fields: dict[str, Any] = {
        "source": source_digest(intake.df),
        STARTING: starting_digest(intake.df),
        "stream": plan_digest(intake.df),
        "reject": [[reason, rule] for reason, rule in intake.reject.items()],
        "order_by": list(intake.order_by),
        "watermark": intake.watermark_us,
        "max_ahead": intake.max_ahead_us,
        "on_error": intake.on_error,
    }
    window = port.spec.window
    if (catch_up := getattr(window, "catch_up", "once")) != "once":  # where it is the default, older code has no field
        fields["catch_up"] = catch_up
    policies = [*row_policies(window), getattr(window, "partition_eviction", None)]
    return fields | {f"policy {type(one).__name__}": digest(one) for one in policies if isinstance(one, UserPolicy)}


def _user_objects(spec: JobSpec) -> Iterator[tuple[str, object]]:
    """Yield the user's own objects whose methods run on the workers, each with its name for a message."""
    for name, aggregate in (spec.aggregates or {}).items():
        if aggregate.user is not None:
            yield f"aggregate {name}", aggregate.user
    operator = spec.operator
    listeners = operator.listeners if isinstance(operator, OperatorWithListeners) else ()
    operator = operator.operator if isinstance(operator, OperatorWithListeners) else operator
    if operator is not None:
        yield f"operator {type(operator).__name__}", operator
    for kind, objects in (("listener", listeners), ("handler", spec.handlers)):
        for number, one in enumerate(objects):
            yield f"{kind} {number} {type(one).__name__}", one
