"""A program that `spark-submit` started: it has the Java libraries that it was given there, and can get no others.

The driver's Java side runs before the program does. So nothing is fetched, and a platform or an image that brings Delta
(`--packages`, `--jars`, or Spark's own folder of jars) is taken as it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from pyspark import SparkConf, SparkContext

from panekeeper.framework.declarations.errors import SetupError
from panekeeper.framework.engine.session.environment import DELTA_VERSION, class_is_loadable
from panekeeper.framework.engine.session.java.jars import HADOOP_VERSION, KAFKA_VERSION, SERIES
from panekeeper.framework.engine.session.kafka import KAFKA_CONNECTOR
from panekeeper.framework.engine.session.required_settings import DELTA_EXTENSION
from panekeeper.framework.engine.session.s3_settings import S3_CLASSES


@dataclass(frozen=True)
class _Given:
    """Java libraries that a program may need: what for, which classes, and what to give `spark-submit` for them."""

    what: str
    classes: tuple[str, ...]
    packages: str


_DELTA = _Given("Delta", (DELTA_EXTENSION,), f"io.delta:delta-spark_{SERIES}_2.13:{DELTA_VERSION}")
_S3 = _Given(
    "access to S3",
    S3_CLASSES,
    f"org.apache.hadoop:hadoop-aws:{HADOOP_VERSION},org.apache.spark:spark-hadoop-cloud_2.13:4.1.2",
)
_KAFKA = _Given("Kafka", (KAFKA_CONNECTOR,), f"org.apache.spark:spark-sql-kafka-0-10_2.13:{KAFKA_VERSION}")


def is_submitted() -> bool:
    """Return whether `spark-submit` started this program, and not Python alone."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def submitted_settings() -> dict[str, str]:
    """Return the settings given to `spark-submit`, before the program has a session."""
    SparkContext._ensure_initialized()  # noqa: SLF001 -- no public way to read them from the Java side before that
    return dict(SparkConf().getAll())


def require_given(*, s3: bool, kafka: bool) -> None:
    """Check that `spark-submit` was given the Java libraries that the program wants.

    Args:
        s3: those for S3, too.
        kafka: those for Kafka, too.

    Raises:
        SetupError: some are missing; the message has the option that adds them.
    """
    jvm: Any = SparkContext._jvm  # noqa: SLF001 -- only the Java side can check its classes
    for given in (_DELTA, *((_S3,) if s3 else ()), *((_KAFKA,) if kafka else ())):
        if missing := [name for name in given.classes if not class_is_loadable(jvm, name)]:
            raise SetupError(
                f"spark-submit started this program without {given.what} ({missing[0]} is missing): add "
                f"`--packages {given.packages}`, or its files by `--jars` where there is no network"
            )
