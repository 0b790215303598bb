"""Errors of Spark and its workers, translated to ours."""

from __future__ import annotations

import errno
import io
import logging
import os

import pytest
from pyspark.logger import PySparkLogger

from panekeeper.framework.declarations.errors import CorruptState, InputError, JobFailed, OutputNotWritable
from panekeeper.framework.engine.session.spark_errors import (
    all_said,
    is_worker_timeout,
    reported_by_the_job,
    translate,
    translate_full_disk,
)

WORKER = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "user.py", line 7, in handle_event
{raised}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:645)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.io.IOException: broken pipe
"""


def test_our_own_errors_are_found_in_the_text_of_a_worker() -> None:
    """The class and its message come back, without the traceback around them."""
    error = translate(
        RuntimeError(WORKER.format(raised="panekeeper.state.errors.CorruptState: segment 3 is missing")), "x"
    )
    assert type(error) is CorruptState
    assert str(error) == "segment 3 is missing"
    error = translate(
        RuntimeError(WORKER.format(raised="panekeeper.framework.declarations.errors.InputError: 1 bad row(s): a: b")),
        "x",
    )
    assert type(error) is InputError
    assert str(error) == "1 bad row(s): a: b"


def test_a_name_in_the_message_of_our_error_is_a_part_of_the_message() -> None:
    """The first name in a line decides, unless it is that of the Java exception around ours."""
    for message in ("StateError: is what x raised", "ValueError: 3", "JobFailed: a: b"):
        for before in ("", "org.apache.spark.api.python.PythonException: "):
            raised = f"{before}panekeeper.framework.declarations.errors.InputError: {message}"
            error = translate(RuntimeError(WORKER.format(raised=raised)), "x")
            assert type(error) is InputError
            assert str(error) == message


def test_the_last_line_of_a_users_traceback_is_the_message_and_all_of_it_follows() -> None:
    """With function, file and line of the user's; without Java, whose broken pipe is a consequence."""
    raised = "ZeroDivisionError: division by zero"
    error = translate(RuntimeError(WORKER.format(raised=raised)), "x")
    assert type(error) is JobFailed
    assert str(error) == f"job 'x' stopped: {raised}\n" + WORKER.partition("\n\n")[0].format(raised=raised)


def test_a_traceback_may_begin_within_a_line() -> None:
    """As that of a worker that could not be started: "returned -2" and no cause was all that was said."""
    said = (
        "[X] The state server returned -2. Cause: Traceback (most recent call last):\n  File w, line 1\nKeyError: 'a'"
    )
    assert str(translate(RuntimeError(said), "x")) == f"job 'x' stopped: KeyError: 'a'\n{said}"


def test_what_fails_in_the_driver_comes_with_its_traceback() -> None:
    """A sink or a callback of the user's: "division by zero" alone says neither what nor where."""
    with pytest.raises(ZeroDivisionError) as raised:
        _ = 1 / 0
    first, *rest = str(translate(raised.value, "x")).splitlines()
    assert first == "job 'x' stopped: ZeroDivisionError: division by zero"
    assert any(f'File "{__file__}"' in line and "test_what_fails_in_the_driver" in line for line in rest)


SCHEMA_CHANGED = """[STREAM_FAILED] Query readings [id = 7, runId = 8] terminated with exception: \
[DELTA_SCHEMA_CHANGED] Detected schema change:
streaming source schema: root
 |-- k: string (nullable = true)

data file schema: root
 |-- k: string (nullable = true)
 |-- more: integer (nullable = true)

Please try restarting the query. SQLSTATE: XXKST
=== Streaming Query ===
Identifier: readings [id = 7, runId = 8]
Current State: ACTIVE

Logical Plan:
~Project [k#1]
\tat org.apache.spark.sql.Some.method(Some.scala:1)
Caused by: io.delta.exceptions.DeltaRuntimeException: [DELTA_SCHEMA_CHANGED] Detected schema change:
streaming source schema: root
 |-- k: string (nullable = true)

data file schema: root
 |-- k: string (nullable = true)
 |-- more: integer (nullable = true)

Please try restarting the query. SQLSTATE: XXKST
\tat io.delta.Some.method(Some.scala:1)
\t... 35 more
Caused by: java.lang.RuntimeException: file:/in/x is not a Parquet file
\tat org.apache.parquet.Reader.read(Reader.java:1)
"""


def test_all_lines_of_spark_and_delta_and_the_innermost_cause_are_kept_once() -> None:
    """Both schemas, and what to do; neither the plan of the query nor Java's stack."""
    said = SCHEMA_CHANGED.partition("exception: ")[2].partition("\n===")[0]
    error = translate(RuntimeError(SCHEMA_CHANGED), "x")
    assert str(error) == f"job 'x' stopped: {said}\njava.lang.RuntimeException: file:/in/x is not a Parquet file"


def test_the_stack_of_a_previous_exception_is_javas_too() -> None:
    """Spark has it in a message, where no line of it begins with `at`."""
    text = (
        "Exception thrown\n\tSuppressed: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error\n\n"
        "Previous exception in task: it was damaged\n\torg.apache.Errors$.lost(Errors.scala:2846)\n"
        "\torg.apache.Generated$Iterator.next(Unknown Source)\n\tjava.base/java.lang.Thread.run(Thread.java:840)\n"
        "Caused by: java.io.IOException: Stream is corrupted"
    )
    said = all_said(RuntimeError(text)).splitlines()
    assert "Previous exception in task: it was damaged" in said
    assert said[-1] == "java.io.IOException: Stream is corrupted"
    assert not [line for line in said if "Errors.scala" in line or "Unknown Source" in line or "Thread.java" in line]


def test_what_is_said_again_in_other_lines_is_kept_once() -> None:
    """As the traceback of a function is, which pyspark has in its own words, and Java with a code before it."""
    raised = 'Traceback (most recent call last):\n  File "own.py", line 1, in half\nValueError: odd'
    text = (
        f"An exception was thrown from the Python worker:\n{raised}\n\tat org.Some.run(Some.scala:1)\n"
        f"Caused by: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: {raised}\n SQLSTATE: 38000\n"
        "org.apache.spark.Stream.run(Stream.scala:390)"
    )
    said = str(translate(RuntimeError(text), "x"))
    assert said.startswith("job 'x' stopped: ValueError: odd\n")
    assert (said.count("Traceback"), said.count("Stream.scala")) == (1, 0)


def test_the_frames_of_the_users_function_are_said_whole_and_no_others() -> None:
    """Neither those of the worker nor ours, by which it was called; an error without frames of the user keeps all."""
    called = [
        '  File "/x/lib/python3.11/site-packages/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 9, in main',
        "    process()",
        "    ^^^^^^^^^",
        '  File "/x/site-packages/panekeeper/framework/core/operator_calls.py", line 3, in call',
        "    self._operator.handle_event(event, self._emitted)",
    ]
    own = [
        '  File "/home/me/pyspark/jobs.py", line 7, in handle_event',
        "    return self.fare(event)",
        "           ^^^^^^^^^^^^^^^^",
        '  File "/x/site-packages/pandas/core/frame.py", line 4, in __getitem__',
        "    raise KeyError(key)",
        "  [Previous line repeated 9 more times]",
    ]
    heading, raised = "Traceback (most recent call last):", "KeyError: 'fare'"
    said = str(
        translate(RuntimeError("\n".join([heading, *called, *own, raised, "\tat org.Some.run(Some.scala:1)"])), "x")
    )
    assert said.splitlines() == [f"job 'x' stopped: {raised}", heading, *own, raised]
    alone = str(translate(RuntimeError("\n".join([heading, *called, raised])), "x"))
    assert alone.splitlines()[1:] == [heading, *called, raised]


def test_all_lines_of_an_error_of_ours_are_kept() -> None:
    """Up to Java's stack."""
    raised = "panekeeper.framework.declarations.errors.InputError: 1 bad row(s): a: b\nand another line"
    assert str(translate(RuntimeError(WORKER.format(raised=raised)), "x")) == "1 bad row(s): a: b\nand another line"


def test_errors_with_a_name_a_user_can_act_on() -> None:
    """A full disk and lost state say what to do; any other error is reported by its first line."""
    full = translate(RuntimeError("java.io.IOException: No space left on device\n\tat java.base"), "x")
    assert type(full) is OutputNotWritable
    assert "make room and start it again" in str(full)
    lost = translate(RuntimeError("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error\n\tat org"), "x")
    assert type(lost) is CorruptState
    assert "restore this checkpoint from a savepoint" in str(lost)
    said = "[STREAM_FAILED] Query terminated: Failed to read log file file:/cp/offsets/1. Incomplete log file"
    log = translate(RuntimeError(f"{said}\n\tat org"), "x")
    assert type(log) is CorruptState
    assert str(log).startswith(f"Spark cannot read the checkpoint of job 'x': {said}; restore this checkpoint from")
    other = translate(RuntimeError("[SOMETHING] odd\n\tat org.apache"), "x")
    assert str(other) == "job 'x' stopped: [SOMETHING] odd"


def test_a_file_of_an_input_that_is_gone_or_damaged_has_a_way_out() -> None:
    """A VACUUM of a Delta table may remove what the job has not read yet; a producer may write half a file."""
    text = (
        "org.apache.spark.SparkException: Job aborted\n\tat org.x\nCaused by: org.apache.spark.SparkException: "
        "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file file:///in/a.parquet. File does not "
        "exist. SQLSTATE: KD001\n\tat org.x"
    )
    error = translate(RuntimeError(text), "x")
    assert type(error) is JobFailed
    assert "reading file file:///in/a.parquet. File does not exist. SQLSTATE: KD001. If it is of a Delta" in str(error)
    assert "job 'x' stopped: [FAILED_READ_FILE.FILE_NOT_EXIST]" in str(error)
    damaged = translate(RuntimeError("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file /in/a. S"), "x")
    assert "reading file /in/a. S. If it is an input of the job and damaged, put a whole one" in str(damaged)


def test_an_unreadable_file_takes_two_lines_however_much_is_said() -> None:
    """Which file and what to do; then all of why: with the three lines of a program's traceback these are five."""
    text = (
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a.json. SQLSTATE: K\n\tat a.b\n"
        "Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING] Malformed records: [null].\n"
        "Parse Mode: FAILFAST. SQLSTATE: 22023\n\tat a.b\nCaused by: com.fasterxml.JsonParseException: Unrecognized 'x'"
    )
    first, second = str(translate(RuntimeError(text), "x")).splitlines()
    assert first.startswith("job 'x' stopped: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///")
    assert second == (
        "[MALFORMED_RECORD_IN_PARSING] Malformed records: [null]. Parse Mode: FAILFAST. SQLSTATE: 22023 "
        "com.fasterxml.JsonParseException: Unrecognized 'x'"
    )


def test_pyspark_prints_no_error_of_sql_that_the_job_reports() -> None:
    """A cast that fails is one line of 14,000 characters on the terminal, in the thread of a batch; not elsewhere."""
    printing, printed = PySparkLogger.getLogger("SQLQueryContextLogger"), io.StringIO()
    handler = logging.StreamHandler(printed)
    printing.addHandler(handler)
    try:
        with reported_by_the_job():
            printing.error("in a batch")
        printing.error("elsewhere")
    finally:
        printing.removeHandler(handler)
    assert ["elsewhere" in line for line in printed.getvalue().splitlines()] == [True]


@pytest.mark.parametrize(
    "cause",
    [
        "org.apache.hadoop.fs.s3a.AWSServiceThrottledException: getFileStatus on s3a://b/x: Service Unavailable",
        "software.amazon.awssdk.services.s3.model.S3Exception: Bad (Service: S3, Status Code: 502, Request ID: null)",
        "software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request: Connection refused",
    ],
)
def test_an_object_store_that_is_away_is_no_damage(cause: str) -> None:
    """Not even if the state could not be loaded from it: the job resumes once the store is back."""
    lost = f"[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error\n\tat org.x\nCaused by: {cause}\n\t... 35 more"
    error = translate(RuntimeError(lost), "x")
    assert type(error) is JobFailed
    assert str(error) == (
        f"job 'x' stopped: the object store did not respond as it should ({cause}); wait until it does. Started again, "
        "it resumes with the same batch.\n[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error"
    )


def test_a_full_disk_at_a_start_is_reported_whoever_wrote_to_it() -> None:
    """Other errors pass as they are, ours among them."""
    with pytest.raises(OutputNotWritable, match="make room and start it again"), translate_full_disk("x"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for error in (InputError("a bad row"), OSError("odd")):
        with pytest.raises(type(error), match=str(error)), translate_full_disk("x"):
            raise error


def test_a_worker_that_was_slow_to_start_is_distinguished() -> None:
    """Only that error is worth another try."""
    assert is_worker_timeout(RuntimeError("org.apache.spark.SparkException: Python worker failed to connect back."))
    assert not is_worker_timeout(RuntimeError("No space left on device"))


LOST = """org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have been lost because they are not \
available in Kafka any more;
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: Could not read records in offset [6, 12) for topic partition readings-1
with consumer group spark-kafka-source-141ad0f9--775695163-executor.
\tat org.apache.spark.sql.kafka010.KafkaExceptions$.couldNotReadOffsetRange(KafkaExceptions.scala:94)
"""
GONE = (
    "messages that it has not read are gone from Kafka (Could not read records in offset [6, 12) for topic partition "
    "readings-1). Nothing was skipped. Send them again to another topic, or start once with the option "
    "failOnDataLoss=false, which skips them"
)
AWAY = (
    "[STREAM_FAILED] Query terminated with exception: org.apache.kafka.common.errors.TimeoutException: Timed out "
    "waiting for a node assignment. Call: listNodes SQLSTATE: XXKST"
)
CHECK_ADDRESS = (
    "Kafka did not respond as it should (Timed out waiting for a node assignment. Call: listNodes); check "
    "kafka.bootstrap.servers, and that a broker runs there"
)
NO_TOPIC = (
    "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
    "This server does not host this topic-partition."
)
CREATE_IT = (
    "a topic does not exist (This server does not host this topic-partition); create it, or correct its name in the "
    "options"
)
REFUSED = "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: Invalid username"
CHECK_LOGIN = (
    "Kafka refuses access (Authentication failed: Invalid username); check the credentials and what they permit"
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [(LOST, GONE), (AWAY, CHECK_ADDRESS), (NO_TOPIC, CREATE_IT), (REFUSED, CHECK_LOGIN)],
    ids=["messages are gone", "the broker is away", "no such topic", "wrong credentials"],
)
def test_an_error_of_the_connector_says_what_to_do(text: str, problem: str) -> None:
    """What happened, in the broker's words where they help, and that nothing is lost."""
    error = translate(RuntimeError(text), "x")
    assert type(error) is JobFailed
    first = str(error).partition("\n")[0]
    assert first == f"job 'x' stopped: {problem}. Started again, it resumes with the same batch."
