"""Results as messages in a topic of Kafka, at least once each; headers let a consumer drop those that came before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql.types import TimestampType

from panekeeper.framework.declarations.calls import with_named_options
from panekeeper.framework.declarations.errors import DeclarationError, OutputNotWritable
from panekeeper.framework.engine.session.columns import AS_JSON, column
from panekeeper.framework.engine.session.java_libraries import KAFKA, require_libraries
from panekeeper.framework.engine.session.kafka import kafka_problem, require_topic

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_VERSIONS = ("refinement", "firing")
_SERVERS = "kafka.bootstrap.servers"


@with_named_options
@dataclass(frozen=True)
class KafkaSink:
    """Writes each row of the log to a topic, too: `to_delta(...).with_sink(KafkaSink(...))`.

    The value of a message is the row as JSON (times in ISO 8601, UTC; fields that are null are written as null). Its
    headers are UTF-8 text:

    * `writer`, `batch`: who wrote it and in which batch, as in the sink protocol; a batch that is run again after a
      crash comes with the same ones, and with the same rows;
    * `version`: the refinement of a pane, or the number of a firing; the newer message of a pane has the greater one.

    So each result arrives at least once. A consumer has it exactly once if it skips what it has seen of the same
    `writer`, key of the window partition, pane and `version`; one that keeps the newest of each pane needs no more than
    to compare `version`, and may read a topic that Kafka compacts by `key`. Rows that an operator emits for panes have
    the same `version` if they are of one firing, and none at other events: there the whole value is compared, too.

    Attributes:
        topic: the topic, which must exist.
        options: options of Spark's Kafka connector; `kafka.bootstrap.servers` at least, and credentials.
        key: the columns whose values are the key of a message, and so decide its Kafka partition: as text if it is one
            column (a time in UTC), else as a JSON object. None: no key.

    Raises:
        DeclarationError: the topic is empty, or the address of the servers is missing.
    """

    topic: str
    options: Mapping[str, str] = field(repr=False)  # may hold a password
    key: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        if not self.topic:
            raise DeclarationError("KafkaSink: topic is empty; give the name of a topic")
        options: object = self.options  # a caller without a type checker may give anything
        if not isinstance(options, Mapping):
            raise DeclarationError(
                f"KafkaSink: options are of type {type(options).__name__}; give a dict, such as "
                f'{{"{_SERVERS}": "host:9092"}}'
            )
        if not self.options.get(_SERVERS):
            raise DeclarationError(f"KafkaSink: options lack {_SERVERS}; give host:port of a broker")

    def prepare(self, spark: SparkSession, schema: StructType) -> None:
        """Check the key's columns, the session and the topic.

        Raises:
            DeclarationError: a column of the key is not in the results.
            SetupError: the session has no Kafka connector.
            OutputNotWritable: the topic does not exist, or no broker responds.
        """
        if unknown := [name for name in self._key_columns if name not in schema.names]:
            raise DeclarationError(f"KafkaSink: key is {unknown[0]!r}, but the results have only {schema.names}")
        require_libraries(KAFKA)
        require_topic(spark, self.topic, self.options)

    def commit(self, results: DataFrame, *, writer: str, batch: int) -> None:
        """Send the rows, and return once the brokers have them.

        Raises:
            OutputNotWritable: Kafka did not take them; the batch is run again at the next start.
        """
        writing = self.messages(results, writer=writer, batch=batch).write.format("kafka").options(**self.options)
        try:
            writing.option("topic", self.topic).save()
        except PySparkException as error:
            problem = kafka_problem(str(error))
            if problem is None:
                raise
            raise OutputNotWritable(f"results were not sent to topic {self.topic!r}: {problem}") from error

    def messages(self, results: DataFrame, *, writer: str, batch: int) -> DataFrame:
        """Return the rows as messages: key, value and headers."""
        version = next((name for name in _VERSIONS if name in results.columns), None)
        headers = {"writer": F.lit(writer), "batch": F.lit(batch)}
        if version is not None:
            headers["version"] = column(version)
        return results.select(
            self._key_of(results.schema).alias("key"),
            F.to_json(F.struct(*map(column, results.columns)), AS_JSON).alias("value"),
            F.array(*[_header(name, value) for name, value in headers.items()]).alias("headers"),
        )

    @property
    def _key_columns(self) -> list[str]:
        return [] if self.key is None else [self.key] if isinstance(self.key, str) else list(self.key)

    def _key_of(self, schema: StructType) -> Column:
        names = self._key_columns
        if len(names) == 1 and isinstance(schema[names[0]].dataType, TimestampType):
            # As text in the session's zone, two times would be one where clocks are set back.
            alone = F.to_json(F.struct(column(names[0]).alias("key")), AS_JSON)
            return F.get_json_object(alone, "$.key")
        if len(names) == 1:
            return column(names[0]).cast("string")
        return F.to_json(F.struct(*map(column, names)), AS_JSON) if names else F.lit(None).cast("string")


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
