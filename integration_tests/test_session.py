"""The session on real Spark: settings in force, Delta at hand, and workers that import our packages and no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import panekeeper.state
from panekeeper.framework.engine.session.session import session

PROGRAM = """
import json
import beside
from panekeeper.framework.engine.session.session import session

def where(_):
    import panekeeper.state, panekeeper.framework
    return [panekeeper.state.__file__, panekeeper.framework.__file__, beside.where()]

if __name__ == "__main__":
    spark = session("shadowed", cores=1)
    print(json.dumps(spark.sparkContext.parallelize([0], 1).map(where).first()))
    print(json.dumps(beside.in_streaming_processes(spark)))
    spark.stop()
"""

BESIDE = """
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

def where():
    return __file__

class Reader(SimpleDataSourceStreamReader):
    def initialOffset(self): return {"n": 0}
    def read(self, start):
        import panekeeper.state
        return iter([(panekeeper.state.__file__,)] if start["n"] == 0 else []), {"n": 1}
    def readBetweenOffsets(self, start, end):
        import panekeeper.state
        return iter([(panekeeper.state.__file__,)])

class Source(DataSource):
    @classmethod
    def name(cls): return "where"
    def schema(self): return "source string"
    def simpleStreamReader(self, schema): return Reader()

class Processor(StatefulProcessor):
    def init(self, handle):
        import panekeeper.state  # also in the process that Spark starts beside the driver
    def handleInputRows(self, key, rows, timerValues):
        import panekeeper.state
        from pyspark.sql import Row
        for row in rows:
            yield Row(source=row.source, processor=panekeeper.state.__file__)
    def close(self): pass

def in_streaming_processes(spark):
    spark.dataSource.register(Source)
    seen = []
    query = (spark.readStream.format("where").load().groupBy("source")
        .transformWithState(Processor(), "source string, processor string", "Append", "None")
        .writeStream.foreachBatch(lambda batch, _: seen.extend(map(list, batch.collect())))
        .trigger(availableNow=True).option("checkpointLocation", os.environ["CHECKPOINT"]).start())
    query.awaitTermination()
    return seen
"""


def test_settings_and_delta_are_in_force(spark: SparkSession, tmp_path: Path) -> None:
    """A session writes and reads Delta, keeps state in RocksDB and thinks in UTC."""
    table = str(tmp_path / "table")
    spark.range(3).write.format("delta").save(table)
    assert spark.read.format("delta").load(table).count() == 3
    assert "RocksDB" in str(spark.conf.get("spark.sql.streaming.stateStore.providerClass"))
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"


def test_a_second_call_gives_the_running_session(spark: SparkSession) -> None:
    """A second call in one process takes part in the running session instead of starting another."""
    assert session("again", cores=2, **{"spark.sql.shuffle.partitions": 4}).sparkContext is spark.sparkContext
    with ThreadPoolExecutor(1) as another_thread:
        assert another_thread.submit(session).result().sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.shuffle.partitions") == "4"


@pytest.mark.extended
@pytest.mark.spark
def test_a_folder_named_state_in_the_launch_directory_does_not_shadow_ours(tmp_path: Path) -> None:
    """Every Python process of Spark imports our `state`, and still finds the modules beside the program."""
    launch, program = tmp_path / "launch", tmp_path / "program"
    for name in ("state", "framework"):
        (launch / name).mkdir(parents=True)
        (launch / name / "__init__.py").write_text("raise ImportError('the folder in the launch directory was taken')")
    program.mkdir()
    (program / "main.py").write_text(PROGRAM)
    (program / "beside.py").write_text(BESIDE)
    ran = _run(program / "main.py", launch=launch, checkpoint=tmp_path / "checkpoint")
    worker, streaming = (json.loads(line) for line in ran.splitlines()[-2:])
    ours = panekeeper.state.__file__
    assert [worker[0], worker[2]] == [ours, str(program / "beside.py")]
    assert streaming == [[ours, ours]]


def _run(program: Path, *, launch: Path, checkpoint: Path) -> str:
    environment = os.environ | {"CHECKPOINT": str(checkpoint)}
    ran = subprocess.run(
        [sys.executable, str(program)], cwd=launch, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return ran.stdout
