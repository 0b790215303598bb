"""What the wheel installs is one name: a user's own modules `state`, `framework` and `recovery` and ours keep apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pyspark
import pytest

from integration_tests.selection import first_before_release
from panekeeper.framework.engine.session.java_libraries import DELTA, cached_jars

ROOT = Path(__file__).resolve().parents[1]
OWN = ("state.py", "framework/__init__.py", "recovery.py")
PROGRAM = """
import json
import sys
from importlib import import_module
from pathlib import Path

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.functions import udf

from panekeeper import Count, Operator, Sliding, session, windowed

sys.path.insert(0, FOLDER + "/lib")
NAMES = ("state", "framework", "recovery")

def found():
    files = {}
    for name in (*NAMES, "library", *(f"panekeeper.{name}" for name in NAMES)):
        try:
            files[name] = import_module(name).__file__
        except ModuleNotFoundError:
            files[name] = None
    return json.dumps(files)

class Source(DataSource):
    @classmethod
    def name(cls): return "here"
    def schema(self): return "source string"
    def simpleStreamReader(self, schema): return Reader()

class Reader(SimpleDataSourceStreamReader):
    def initialOffset(self): return {"n": 0}
    def read(self, start): return iter([(found(),)] if start["n"] == 0 else []), {"n": 1}
    def readBetweenOffsets(self, start, end): return iter([(found(),)])

class Found(Operator):
    def handle_event(self, event, emit):
        emit(udf=event.column("udf")[0], operator=found())

spark = session("beside", cores=1)
spark.dataSource.register(Source)
stream = spark.readStream.format("here").load().withColumn("udf", udf(found)())
results = windowed(stream, name="beside", partition_by="source").window(Sliding(evict=Count(1), trigger=Count(1)))
job = (
    results.operator(Found(), output="udf string, operator string")
    .to_delta(FOLDER + "/log")
    .start(checkpoint=FOLDER + "/checkpoint", trigger="available_now")
)
job.await_end()
(row,) = spark.read.format("delta").load(FOLDER + "/log").collect()
print("FOUND", json.dumps({"program": found(), "source": row.source, "udf": row.udf, "operator": row.operator}))
spark.stop()
"""
IN_A_KERNEL = """
import sys
from pathlib import Path
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel(kernel_name="python3", cwd=str(Path(sys.argv[1]).parent))
reply = client.execute_interactive(Path(sys.argv[1]).read_text(), timeout=240)
client.stop_channels()
manager.shutdown_kernel()
sys.exit(reply["content"]["status"] != "ok")
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the wheel and the packages of this one, but not with the checkout."""
    folder = tmp_path_factory.mktemp("installed")
    build = ["-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run([sys.executable, *build], cwd=ROOT, capture_output=True, check=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "empty")], check=True)
    installed = folder / "empty" / "bin" / "python"
    install = ["-m", "pip", "--python", str(installed), "--quiet", "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, *install], check=True)
    (packages,) = folder.glob("empty/lib/*/site-packages")
    # A folder that is named by a .pth file brings its packages, but not what its own .pth files name: the checkout.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"))
    return installed


@pytest.mark.spark
@pytest.mark.parametrize("way", first_before_release(("kernel",), ("script",), ("spark-submit",)))
def test_a_users_own_state_framework_and_recovery_and_ours_are_both_found(
    python: Path, tmp_path: Path, way: str
) -> None:
    """By a program, by its data source, by a UDF and by an operator in our stateful processor, however it is started.

    So is a module in a folder that the program has put on its path. Modules in the folder from which it is started are
    taken by none of them.
    """
    program, launch = tmp_path / "program", tmp_path / "launch"
    for own in OWN:
        for folder, content in ((program, ""), (launch, "raise ImportError('taken from the launch folder')")):
            (folder / own).parent.mkdir(parents=True, exist_ok=True)
            (folder / own).write_text(content)
    library = tmp_path / "lib" / "library.py"
    library.parent.mkdir()
    library.touch()
    job = program / "job.py"
    job.write_text(f"FOLDER = {str(tmp_path)!r}\n{PROGRAM}")
    found = _run(_command(way, python, job), python, launch)

    own_files = {own.removesuffix(".py").removesuffix("/__init__"): str(program / own) for own in OWN}
    (packages,) = python.parents[1].glob("lib/*/site-packages/panekeeper")
    our_files = {f"panekeeper.{name}": str(packages / name / "__init__.py") for name in own_files}
    assert found["program"] == own_files | our_files | {"library": str(library)}
    for worker in ("source", "udf", "operator"):
        assert found[worker] == found["program"]


def _command(way: str, python: Path, job: Path) -> list[str]:
    if way == "kernel":
        return [str(python), "-c", IN_A_KERNEL, str(job)]
    if way == "script":
        return [str(python), str(job)]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    return [str(submit), "--master", "local[1]", "--jars", ",".join(map(str, cached_jars(DELTA))), str(job)]


def _run(command: list[str], python: Path, launch: Path) -> dict[str, dict[str, str | None]]:
    """Return which files each kind of process has found."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"PYSPARK_PYTHON": str(python), "JUPYTER_RUNTIME_DIR": str(launch / "runtime")}
    ran = subprocess.run(command, cwd=launch, env=environment, capture_output=True, text=True, check=False, timeout=300)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, ran.stdout[-2000:] + ran.stderr[-4000:]
    return {process: json.loads(files) for process, files in json.loads(lines[0].removeprefix("FOUND ")).items()}
