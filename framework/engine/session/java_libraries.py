"""The Java side of a session before it runs: the Java libraries of Delta, S3 and Kafka, and Spark's home.

In a program of Python's own they are kept in a folder of this machine, so only the first start needs the network. They
are resolved by Spark's own client (Ivy), which verifies checksums and honours a user's mirrors
(`DEFAULT_ARTIFACT_REPOSITORY`, `spark.jars.ivySettings` in `SPARK_CONF_DIR`).

A program that `spark-submit` started has what it was given there: the driver's Java side runs before the program does.
So nothing is fetched, and a platform or an image that brings Delta (`--packages`, `--jars`, or Spark's own folder of
jars) is taken as it is.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext

from panekeeper.framework.declarations.errors import SetupError
from panekeeper.framework.engine.session.environment import DELTA_VERSION, class_is_loadable, spark_series
from panekeeper.framework.engine.session.s3_settings import FILE_MANAGER
from panekeeper.framework.engine.session.settings import DELTA_EXTENSION, DELTA_SETTINGS

_SERIES = spark_series(pyspark.__version__)
_HADOOP_VERSION = "3.4.2" if _SERIES == "4.1" else "3.5.0"  # Spark's own
_AWS_VERSION = "2.29.52" if _SERIES == "4.1" else "2.35.4"  # what this Hadoop was built with
# Spark's own, with its Kafka client. Of 4.1.2 to 4.1.4 Maven Central lacks parts; 4.1.1 works.
_KAFKA_VERSION = "4.1.1" if _SERIES == "4.1" else pyspark.__version__

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
        what: what they are for, as a message names it.
        folder: theirs in the cache; its name changes with their versions.
        main: part of the name of a jar that must be among them.
        packages: what is to be given to `spark-submit`, with all that it needs.
        parts: what is fetched instead of a whole that is left out.
        left_out: what is not fetched, beside what is shipped.
        shipped: what is there already.
        option: the argument of `session()` that adds them, if one does.
        classes: those that the Java side of a session needs.
    """

    what: str
    folder: str
    main: str
    packages: tuple[str, ...]
    parts: tuple[str, ...] = ()
    left_out: tuple[str, ...]
    shipped: tuple[str, ...] = _SHIPPED_BY_SPARK
    option: str = ""
    classes: tuple[str, ...] = ()


# Without what Spark ships, 14 MB instead of 87.
DELTA = JavaLibraries(
    what="Delta",
    folder=f"delta-{DELTA_VERSION}-spark-{_SERIES}",
    main="delta-spark",
    packages=(f"io.delta:delta-spark_{_SERIES}_2.13:{DELTA_VERSION}",),
    left_out=("org.apache.hadoop:*",),
    classes=(DELTA_EXTENSION,),
)
# hadoop-aws names a bundle of all of Amazon's services, 690 MB; the parts that it uses are 10 MB. spark-hadoop-cloud is
# there for one class (`FILE_MANAGER`); there is none for Spark 4.2 yet, and what 4.1's extends has not changed.
S3 = JavaLibraries(
    what="S3",
    folder=f"s3a-{_HADOOP_VERSION}",
    main="hadoop-aws",
    packages=(
        f"org.apache.hadoop:hadoop-aws:{_HADOOP_VERSION}",
        "org.apache.spark:spark-hadoop-cloud_2.13:4.1.2",
    ),
    parts=tuple(f"software.amazon.awssdk:{name}:{_AWS_VERSION}" for name in ("s3", "s3-transfer-manager", "sts")),
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
    option="s3",
    classes=("org.apache.hadoop.fs.s3a.S3AFileSystem", FILE_MANAGER),
)
KAFKA = JavaLibraries(
    what="Kafka",
    folder=f"kafka-spark-{_KAFKA_VERSION}",
    main="spark-sql-kafka",
    packages=(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{_KAFKA_VERSION}",),
    left_out=("at.yawk.lz4:*", "org.scala-lang.modules:*"),
    option="kafka",
    classes=("org.apache.spark.sql.kafka010.KafkaSourceProvider",),
)

_RESTART = "Restart the Python process, or the kernel of the notebook, and take the session from"
"""What to do where the Java side of a process lacks libraries."""


def require_libraries(libraries: JavaLibraries) -> None:
    """Raise `SetupError` unless the Java side of this process, which runs, has some libraries.

    It outlives the sessions, and has those with which it was started. What a later session names goes to executors
    only, so the message has what works: a new process, or another `spark-submit`.
    """
    jvm: Any = SparkContext._jvm  # noqa: SLF001 -- only the Java side can check its classes
    missing = [name for name in libraries.classes if not class_is_loadable(jvm, name)]
    if missing and is_submitted():
        raise SetupError(
            f"spark-submit started this program without {libraries.what} ({missing[0]} is missing): add "
            f"`--packages {','.join(libraries.packages)}`, or its files by `--jars` where there is no network"
        )
    if missing:
        option = libraries.option and f"{libraries.option}=True"
        raise SetupError(
            f"Spark's Java runs in this process already, without {libraries.what} ({missing[0]} is missing), and takes "
            f"no more libraries. {_RESTART} panekeeper.session({option}) before anything else starts Spark"
        )


def require_delta(settings: Mapping[str, str | None], *, has_classes: bool) -> None:
    """Raise `SetupError` unless a session has Delta; the message has all that it lacks, at once.

    Args:
        settings: the values of `DELTA_SETTINGS` in the session.
        has_classes: whether its Java side has Delta's classes.
    """
    lacking = {name: wanted for name, wanted in DELTA_SETTINGS.items() if wanted not in (settings.get(name) or "")}
    if not lacking and has_classes:
        return
    package = {} if has_classes else {"spark.jars.packages": DELTA.packages[0]}
    lines = "".join(f'\n    .config("{name}", "{value}")' for name, value in (package | lacking).items())
    if has_classes:
        raise SetupError(
            "this Spark session has no Delta. Stop it, and take it from panekeeper.session(), or build it with what it "
            f"lacks (spark-submit takes the same by --conf):{lines}"
        )
    raise SetupError(
        f"this Spark session has no Delta, and the Java that runs in this process takes no more libraries. {_RESTART} "
        "panekeeper.session() before anything else starts Spark, or build it with what this one lacks (spark-submit "
        f"takes the same by --conf):{lines}"
    )


def is_submitted() -> bool:
    """Return whether `spark-submit` started this program, and not Python alone."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def submitted_settings() -> dict[str, str]:
    """Return the settings given to `spark-submit`, before the program has a session."""
    SparkContext._ensure_initialized()  # noqa: SLF001 -- no public way to read them from the Java side before that
    return dict(SparkConf().getAll())


def java_runs() -> bool:
    """Return whether this process has a Java side, with or without a session."""
    return SparkContext._gateway is not None  # noqa: SLF001 -- it outlives the sessions, and no public call tells


def cached_jars(libraries: JavaLibraries) -> list[Path]:
    """Return the jars of some libraries as local files, fetched if they are not there yet. Raises `SetupError`."""
    folder = cached_folder(
        f"jars/{libraries.folder}",
        lambda work: _fetch(libraries, work),
        lambda kept: any(kept.glob(f"*{libraries.main}*.jar")),
    )
    return sorted(folder.glob("*.jar"))


def _fetch(libraries: JavaLibraries, work: Path) -> Path:
    """Return the folder of the jars that `spark-submit` has fetched for a program that does nothing.

    No Spark context is started.
    """
    program = work / "nothing.py"
    program.touch()
    coordinates = (*libraries.packages, *libraries.parts)
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local[1]"),
        *("--packages", ",".join(coordinates)),
        *("--exclude-packages", ",".join((*libraries.shipped, *libraries.left_out))),
        *("--conf", f"spark.jars.ivy={work}"),
        str(program),
    ]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(Path(pyspark.__file__).parent)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 0 or not any((work / "jars").glob(f"*{libraries.main}*.jar")):
        output = [line.strip() for line in ran.stderr.splitlines() if line.strip()] or ["nothing"]
        words = ("not found", "Exception", "unresolved")
        failure = next((line for line in output if any(word in line for word in words)), output[-1])
        raise SetupError(
            f"the Java libraries for {libraries.what} ({', '.join(coordinates)}) could not be fetched from Maven "
            f"Central; the first start needs the network, or a mirror in DEFAULT_ARTIFACT_REPOSITORY. Spark output: "
            f"{failure}"
        )
    return work / "jars"


def spark_home() -> Path:
    """Return the folder to name as SPARK_HOME: a view of the installed Spark without its packed Python sources.

    Spark puts `python/lib/pyspark.zip` of its home in front of all else in every Python process that it starts, and one
    is started with each query. Python keeps nothing compiled for sources in an archive: each of these processes would
    compile pyspark again (0.6 s of a core instead of 0.1). The packages of this interpreter hold the same sources,
    compiled. Where no view can be made, it is the installed one.
    """
    installed = Path(pyspark.__file__).parent
    name = f"{pyspark.__version__}-{hashlib.sha256(str(installed).encode()).hexdigest()[:12]}"
    linked = ("bin", "conf", "data", "jars", "sbin")  # `conf` is the user's to make, now or later

    def make(view: Path) -> Path:
        for part in linked:
            (view / part).symlink_to(installed / part)
        return view

    try:
        return cached_folder(f"spark/{name}", make, lambda view: all((view / part).is_symlink() for part in linked))
    except OSError:
        return installed


def cache_folder() -> Path:
    """Return where files are kept that are made once on a machine: `PANEKEEPER_CACHE`, or `~/.cache/panekeeper`."""
    given = os.environ.get("PANEKEEPER_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "panekeeper"


def cached_folder(name: str, make: Callable[[Path], Path], is_whole: Callable[[Path], bool]) -> Path:
    """Return a folder of the cache, made first if it is not there; complete, also if several processes make it.

    `make` is given an empty folder to work in, and returns which folder in it, or itself, is to be kept. One that is
    not whole is made again: what cleans up caches may remove old files and leave the folder.
    """
    folder = cache_folder().absolute() / name
    if folder.is_dir() and is_whole(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    work, aside = (Path(tempfile.mkdtemp(dir=folder.parent, prefix=".making-")) for _ in range(2))
    try:
        made = make(work)
        if folder.is_dir() and not is_whole(folder):
            folder.rename(aside / "damaged")
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was first, with the same files
                raise
    finally:
        for left in (work, aside):
            shutil.rmtree(left, ignore_errors=True)
    return folder
