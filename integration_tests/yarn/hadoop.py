"""A Hadoop cluster on this machine: HDFS and YARN with one node each, by the daemons that a real one has."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pyspark

from framework.engine.session.environment import java_executable
from framework.engine.session.java.jars import HADOOP_VERSION, JavaLibraries, cached_jars
from state.checkpoint.clock import Deadline

# Hadoop's client is Spark's own; the resource manager makes certificates by Bouncy Castle, which nothing brings along.
_DAEMONS = JavaLibraries(
    what="the Java libraries of Hadoop's daemons",
    folder=f"hadoop-daemons-{HADOOP_VERSION}",
    main="hadoop-client-minicluster",
    coordinates=(
        f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP_VERSION}",
        "org.bouncycastle:bcpkix-jdk18on:1.78.1",
    ),
    left_out=(),
)
_JARS = Path(pyspark.__file__).parent / "jars"
_HDFS, _YARN = "org.apache.hadoop.hdfs.server", "org.apache.hadoop.yarn.server"
_TIMEOUT = 120
_LOG = """\
rootLogger.level=info
rootLogger.appenderRef.console.ref=console
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %c: %m%n
"""


class Hadoop:
    """The daemons of a cluster that began when this was made. Logs, data and configuration are in one folder.

    Attributes:
        configuration: the folder to name in `HADOOP_CONF_DIR` and `SPARK_CONF_DIR`.
    """

    def __init__(self, folder: Path) -> None:
        self.configuration = folder / "conf"
        self.configuration.mkdir(parents=True)
        self._folder = folder
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._configure()
        subprocess.run(self._command(f"{_HDFS}.namenode.NameNode", "-format"), check=True, capture_output=True)
        names = self._begin(f"{_HDFS}.namenode.NameNode")
        resources = self._begin(f"{_YARN}.resourcemanager.ResourceManager")
        try:
            _wait(names, "NameNode RPC up")
            _wait(resources, "Transitioned to active state")
            blocks = self._begin(f"{_HDFS}.datanode.DataNode")
            node = self._begin(f"{_YARN}.nodemanager.NodeManager")
            _wait(blocks, "successfully registered with NN")
            _wait(node, "Registered with ResourceManager")
        except BaseException:
            self.close()
            raise

    def put(self, local: Path, path: str) -> None:
        """Copy a folder to HDFS; its files keep their times."""
        self._shell("-put", "-p", str(local), path)

    def get(self, path: str, local: Path) -> None:
        """Copy a folder from HDFS."""
        self._shell("-get", path, str(local))

    def close(self) -> None:
        """Kill the daemons."""
        for daemon in reversed(self._daemons):
            daemon.kill()
            daemon.wait()

    def _shell(self, *arguments: str) -> None:
        command = self._command("org.apache.hadoop.fs.FsShell", *arguments)
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT)
        assert ran.returncode == 0, ran.stderr

    def _begin(self, main: str) -> Path:
        log = self._folder / f"{main.rpartition('.')[2]}.log"
        with log.open("wb") as stream:
            command = self._command(main)
            self._daemons.append(
                subprocess.Popen(command, stdout=stream, stderr=stream, cwd=self._folder, start_new_session=True)
            )
        return log

    def _command(self, main: str, *arguments: str) -> list[str]:
        java = java_executable()
        assert java is not None, "Spark's tests need Java"
        path = os.pathsep.join(map(str, (self.configuration, *cached_jars(_DAEMONS), _JARS / "*")))
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [java, *options, "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", path, main, *arguments]

    def _configure(self) -> None:
        ports = iter(_free_ports(14))
        data = self._folder / "data"

        def at() -> str:
            return f"127.0.0.1:{next(ports)}"

        self._write("core-site", {"fs.defaultFS": f"hdfs://{at()}", "hadoop.tmp.dir": data / "tmp"})
        hdfs = {f"dfs.datanode.{one}": at() for one in ("address", "http.address", "ipc.address")}
        self._write("hdfs-site", hdfs | {"dfs.replication": 1, "dfs.namenode.http-address": at()})
        manager = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
        node = ("address", "localizer.address", "webapp.address")
        yarn = {f"yarn.resourcemanager.{one}": at() for one in manager} | {
            "yarn.nodemanager.hostname": "127.0.0.1",
            **{f"yarn.nodemanager.{one}": at() for one in node},
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.resource.memory-mb": 3072,
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 100,
            "yarn.scheduler.minimum-allocation-mb": 256,
        }
        self._write("yarn-site", yarn)
        queue = "yarn.scheduler.capacity"
        self._write(
            "capacity-scheduler",
            {f"{queue}.root.queues": "default", f"{queue}.root.default.capacity": 100},
        )
        (self.configuration / "log4j2.properties").write_text(_LOG)

    def _write(self, name: str, properties: Mapping[str, object]) -> None:
        lines = [f"<property><name>{one}</name><value>{value}</value></property>" for one, value in properties.items()]
        content = "\n".join(("<configuration>", *lines, "</configuration>"))
        (self.configuration / f"{name}.xml").write_text(content)


def _wait(log: Path, words: str) -> None:
    deadline = Deadline(_TIMEOUT)
    while re.search(words, log.read_text(errors="replace")) is None:
        if deadline.has_passed():
            raise TimeoutError(f"{log.stem} did not log {words!r} in {_TIMEOUT} s: {log.read_text()[-500:]}")
        time.sleep(0.1)  # polls: a daemon reports its start in its log only


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
