"""Keeps the Java libraries of Delta, S3 and Kafka in a folder of this machine: only the first start needs the network.

They are resolved by Spark's own client (Ivy), which verifies checksums and honours a user's mirrors
(`DEFAULT_ARTIFACT_REPOSITORY`, `spark.jars.ivySettings` in `SPARK_CONF_DIR`). Needs no session.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from zipfile import is_zipfile

import pyspark

from panekeeper.framework.declarations.errors import SetupError
from panekeeper.framework.engine.session.environment import DELTA_VERSION, spark_series
from panekeeper.framework.engine.session.java.local_cache import cached_folder

SERIES = spark_series(pyspark.__version__)
HADOOP_VERSION = "3.4.2" if SERIES == "4.1" else "3.5.0"  # Spark's own
_AWS_VERSION = "2.29.52" if SERIES == "4.1" else "2.35.4"  # what this Hadoop was built with
# Spark's own, with its Kafka client. Of 4.1.2 to 4.1.4 Maven Central lacks parts; 4.1.1 works.
KAFKA_VERSION = "4.1.1" if SERIES == "4.1" else pyspark.__version__

# Libraries that others name although Spark ships them itself, most in newer versions; Spark's own would win on the
# class path anyway.
_SHIPPED_BY_SPARK = (
    "com.fasterxml.jackson.core:*",
    "com.fasterxml.jackson.dataformat:*",
    "com.github.luben:*",
    "com.google.code.findbugs:*",
    "commons-codec:*",
    "commons-logging:*",
    "commons-pool:*",
    "io.airlift:*",
    "io.netty:*",
    "joda-time:*",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.apache.httpcomponents:*",
    "org.apache.logging.log4j:*",
    "org.apache.parquet:*",
    "org.locationtech.jts:*",
    "org.roaringbitmap:*",
    "org.slf4j:*",
    "org.xerial.snappy:*",
)


@dataclass(frozen=True, kw_only=True)
class JavaLibraries:
    """Some Java libraries that belong together.

    Attributes:
        what: as a message names them.
        folder: theirs in the cache; its name changes with their versions.
        main: part of the name of a jar that must be among them.
        coordinates: what is resolved, with what it needs.
        left_out: what is not fetched, beside what is shipped.
        shipped: what is there already.
    """

    what: str
    folder: str
    main: str
    coordinates: tuple[str, ...]
    left_out: tuple[str, ...]
    shipped: tuple[str, ...] = _SHIPPED_BY_SPARK


# Without what Spark ships, 14 MB instead of 87.
_DELTA = JavaLibraries(
    what="Delta's Java libraries",
    folder=f"delta-{DELTA_VERSION}-spark-{SERIES}",
    main="delta-spark",
    coordinates=(f"io.delta:delta-spark_{SERIES}_2.13:{DELTA_VERSION}",),
    left_out=("org.apache.hadoop:*",),
)
# hadoop-aws names a bundle of all of Amazon's services, 690 MB; the parts that it uses are 10 MB. spark-hadoop-cloud is
# there for one class (`s3.FILE_MANAGER`); there is none for Spark 4.2 yet, and what 4.1's extends has not changed.
_S3 = JavaLibraries(
    what="the Java libraries for S3",
    folder=f"s3a-{HADOOP_VERSION}",
    main="hadoop-aws",
    coordinates=(
        f"org.apache.hadoop:hadoop-aws:{HADOOP_VERSION}",
        "org.apache.spark:spark-hadoop-cloud_2.13:4.1.2",
        *(f"software.amazon.awssdk:{name}:{_AWS_VERSION}" for name in ("s3", "s3-transfer-manager", "sts")),
    ),
    left_out=(
        "com.google.cloud.bigdataoss:*",
        "com.squareup.okhttp3:*",
        "com.squareup.okio:*",
        "org.apache.hadoop:hadoop-azure",
        "org.apache.hadoop:hadoop-cloud-storage",
        "org.apache.hadoop:hadoop-huaweicloud",
        "org.eclipse.jetty:*",
        "org.wildfly.openssl:*",
        "software.amazon.awssdk:bundle",
    ),
)
_KAFKA = JavaLibraries(
    what="the Java libraries for Kafka",
    folder=f"kafka-spark-{KAFKA_VERSION}",
    main="spark-sql-kafka",
    coordinates=(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{KAFKA_VERSION}",),
    left_out=("at.yawk.lz4:*", "org.scala-lang.modules:*"),
)


def delta_jars() -> list[Path]:
    """Delta's jars as local files, fetched if they are not there yet.

    Raises:
        SetupError: they are not in the cache and cannot be fetched.
    """
    return cached_jars(_DELTA)


def s3_jars() -> list[Path]:
    """The jars of the file system `s3a`, as `delta_jars`."""
    return cached_jars(_S3)


def kafka_jars() -> list[Path]:
    """The jars of Spark's Kafka connector, as `delta_jars`."""
    return cached_jars(_KAFKA)


def cached_jars(libraries: JavaLibraries) -> list[Path]:
    """Return the jars of some libraries as local files, fetched if they are not there yet.

    Raises:
        SetupError: they are not in the cache and cannot be fetched.
    """
    folder = cached_folder(
        f"jars/{libraries.folder}", lambda work: _resolve(libraries, work), lambda kept: _has_jars(libraries, kept)
    )
    return sorted(folder.glob("*.jar"))


def _has_jars(libraries: JavaLibraries, folder: Path) -> bool:
    """Return whether the main jar of some libraries is in a folder, and each jar there has its end."""
    return bool([*folder.glob(f"*{libraries.main}*.jar")]) and all(map(is_zipfile, folder.glob("*.jar")))


def _resolve(libraries: JavaLibraries, work: Path) -> Path:
    """Lets `spark-submit` resolve the packages for a program that does nothing (no Spark context is started).

    Returns the folder of their jars.
    """
    program = work / "nothing.py"
    program.touch()
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local[1]"),
        *("--packages", ",".join(libraries.coordinates)),
        *("--exclude-packages", ",".join((*libraries.shipped, *libraries.left_out))),
        *("--conf", f"spark.jars.ivy={work}"),
        str(program),
    ]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 0 or not _has_jars(libraries, work / "jars"):
        output = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
        raise SetupError(
            f"{libraries.what} ({', '.join(libraries.coordinates)}) could not be fetched from Maven Central; "
            f"the first start needs the network, or a mirror in DEFAULT_ARTIFACT_REPOSITORY. "
            f"Spark output: {_failure_line(output)}"
        )
    return work / "jars"


def _failure_line(output: list[str]) -> str:
    """Return the line of Spark's output that names the failure: the first with a word of one, else the last."""
    failures = [line for line in output if "not found" in line or "Exception" in line or "unresolved" in line]
    return (failures or output or ["nothing"])[0 if failures else -1]
