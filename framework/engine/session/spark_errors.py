"""What went wrong: Spark's errors translated to those of the tree in `declarations/errors.py`.

An error that was raised in a Python worker reaches the driver as text inside a Java exception inside a Python one.
Ours are found in it by name; a few of the Java world have a name a user can act on; the rest is `JobFailed`.

The message begins with one sentence of ours. Below it is all that Spark, Delta or Python said, with the traceback of
Python and without Java's stack. The original is its `cause`; it is raised from none, as Python would print that, too.
"""

from __future__ import annotations

import logging
import re
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from panekeeper.framework.declarations import errors
from panekeeper.framework.declarations.errors import CorruptState, JobFailed, OutputNotWritable, PanekeeperError
from panekeeper.framework.engine.session.kafka import kafka_problem

_RAISED = re.compile(r"^\s*(?:\w+\.)*(\w+): (.+)$")
_LOCAL_FULL = ("No space left on device", "Disk quota exceeded")
_UNREADABLE = (
    *("CANNOT_LOAD_STATE_STORE", "STATE_STORE_", "RocksDBException", "FAILED_TO_READ_DELTA_FILE"),
    *("Incomplete log file", "CHECKPOINT_MISSING_METADATA_FILE", "FAILED_TO_READ_OPERATOR_METADATA"),
)
"""What Spark says of state, or of a log of its own, that it cannot read."""
_STORE_AWAY = re.compile(
    r"AWSServiceThrottledException|Service: S3, Status Code: 5\d\d|s3a\.\S*Timeout|Unable to execute HTTP request"
)
"""An object store that cannot be reached or is overloaded: what is stored there is not damaged."""
_UNREADABLE_FILE = "[FAILED_READ_FILE."
_INPUT_DAMAGED = (
    "If it is an input of the job and damaged, put a whole one in its place, under the same name; or move it away, and "
    "the next start leaves out its rows"
)
_INPUT_GONE = (
    "If it is of a Delta table that the job reads, a VACUUM has removed it before the job had read it, and each start "
    "fails: put the file back; or set spark.sql.files.ignoreMissingFiles to true in the session for one start, which "
    "leaves out the rows of such files; or reset the job to its initial state, and it reads the table as it is now. To "
    "avoid it, raise delta.deletedFileRetentionDuration of that table beyond the longest stop of the job"
)
_STACK = re.compile(
    r"\s+at\b.*|\s*\.\.\. \d+ more|Driver stacktrace:|JVM stacktrace:"
    r"|\s*[\w$./]+\((?:Unknown Source|Native Method|\w+\.(?:java|scala):\d+)\)"  # of the task's previous exception
)
"""A line of Java's stack, or one that says that there is one."""
_BEFORE_A_STATEMENT = re.compile(
    r"^(?:Caused by: |: |An error occurred while calling \S+\.$"
    r"|Job aborted due to stage failure: .*?: (?=[\w.$]+(?:Exception|Error): )"
    r"|\[STREAM_FAILED\] Query .*?terminated with exception: "
    r"|(?:org\.apache\.spark|io\.delta|java\.util\.concurrent)[\w.$]*(?:Exception|Error): (?=\S))+"
)
"""What Java, its gateway and the query put before what went wrong."""
_OF_A_WORKER = re.compile(r"java\.(?:net|io)\.\w+: (?:broken pipe|connection reset.*)", re.IGNORECASE)
"""What the end of a Python worker, or of what it was to compute, leaves beside its cause."""
_OF_A_QUERY = re.compile(r"^=== Streaming Query ===$.*?(?=^\s+at\b|\Z)", re.MULTILINE | re.DOTALL)
"""Offsets and plan of a query, which Spark adds to its error."""
_FRAME = re.compile(r'  File "(.*)", line \d+.*')
_OF_THE_WAY = re.compile(
    r"(?:^|/)(?:panekeeper/(?:framework|recovery|state)|(?:site-packages|dist-packages|python|pyspark\.zip)/(?:pyspark|py4j))/"
)
"""A file of Panekeeper or of Spark's Python side, by which a function of the user's is called."""
_WORKER_TIMEOUT = ("Python worker failed to connect back", "PYTHON_WORKER_FAILED_TO_CONNECT")


class BatchFailed(RuntimeError):
    """Reports to Spark that a batch failed. The job keeps the error itself and raises it where the job is awaited.

    Its text is short on purpose: Spark 4.2 matches what a Python `foreachBatch` raises with a regular expression
    that overflows its stack on a long one.
    """


class _SuppressBatchFailed(logging.Filter):
    """Keeps the gateway from printing a traceback of `BatchFailed`: the error itself is raised where it is awaited."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], BatchFailed))


logging.getLogger("py4j.clientserver").addFilter(_SuppressBatchFailed())


class _SuppressOfBatches(logging.Filter):
    """Keeps pyspark from printing an error of SQL, with Java's stack, in threads that run a batch: the job reports it.

    As a division by zero, or text that is cast to a number.
    """

    threads: ClassVar[set[int]] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread not in self.threads


_suppress_of_batches = _SuppressOfBatches()


@contextmanager
def reported_by_the_job() -> Iterator[None]:
    """Let pyspark print no errors of SQL that this thread gets in the block: the job, or the declaration, says them."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).addFilter(_suppress_of_batches)
    _SuppressOfBatches.threads.add(this := threading.get_ident())
    try:
        yield
    finally:
        _SuppressOfBatches.threads.discard(this)


def translate(error: BaseException, job: str) -> PanekeeperError:
    """Return the error of the tree that says what `error` means for the user, which is its `cause`."""
    if isinstance(error, PanekeeperError):
        return error
    translated = _translated(error, job)
    translated.cause = error
    return translated


def _translated(error: BaseException, job: str) -> PanekeeperError:
    said = _statements(error)
    ours = _raised_by_us(said)
    if ours is not None:
        return ours
    text = "\n".join(said)
    if any(words in text for words in _LOCAL_FULL):
        full = "a disk is full; make room and start it again: it resumes with the same batch"
        return OutputNotWritable(_with_all(f"job {job!r} stopped because {full}", said))
    away = _store_problem(text)
    if away is None and any(words in text for words in _UNREADABLE):
        advice = "restore this checkpoint from a savepoint, or start with a new checkpoint folder"
        return CorruptState(
            _with_all(f"Spark cannot read the checkpoint of job {job!r}: {first_line(error)}; {advice}", said)
        )
    problem = away or kafka_problem(text)
    if problem is not None:
        sentence = f"job {job!r} stopped: {problem}. Started again, it resumes with the same batch."
        return JobFailed(_with_all(sentence, said))
    if (raised := _last_python_line(text)) is None and (unreadable := _unreadable_file(text)) is not None:
        sentence, *others = _with_all(f"job {job!r} stopped: {unreadable}", said).splitlines()
        reason = " ".join(others)  # which file, why, what to do: two lines for any file
        return JobFailed(f"{sentence}\n{reason}".rstrip())
    headline = raised or said[0].partition("\n")[0]
    return JobFailed(_with_all(f"job {job!r} stopped: {headline}", said))


@contextmanager
def translate_full_disk(job: str) -> Iterator[None]:
    """Translate the error of a full disk that the block raises; other errors pass."""
    try:
        yield
    except PanekeeperError:
        raise
    except Exception as error:
        if any(words in full_text(error) for words in _LOCAL_FULL):
            raise translate(error, job) from error
        raise


def is_worker_timeout(error: BaseException) -> bool:
    """Say whether Spark gave up on a Python worker that was slow to start: a busy machine, no fault of the job."""
    text = full_text(error)
    return any(words in text for words in _WORKER_TIMEOUT)


def first_line(error: BaseException) -> str:
    """Return what a Java or Python error says, without its stack trace."""
    lines = full_text(error).strip().splitlines() or [type(error).__name__]
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:  # the gateway's own words
        return lines[1].removeprefix(": ")
    return lines[0]


def full_text(error: BaseException) -> str:
    """Return all that an error says, the Java side included."""
    java = getattr(error, "java_exception", None)
    said = str(error)
    if java is not None:
        said = f"{said}\n{java.toString()}"
    return said


def all_said(error: BaseException) -> str:
    """Return all that an error of Spark, Delta or Python says, and its causes, without Java's stack; each once."""
    return "\n".join(_statements(error))


def _statements(error: BaseException) -> list[str]:
    """Return what an error and its causes say, from the outermost to the innermost; at least one, none within another.

    A statement is what stands between two of Java's stacks, with the traceback of Python that is in it.
    """
    text = full_text(error)
    if isinstance(stack := getattr(error, "_stackTrace", None), str):  # of pyspark, with the causes
        text = f"{text}\n\tat\n{stack}"
    elif not hasattr(error, "java_exception") and error.__traceback__ is not None:
        text = "".join(traceback.format_exception(error))
    parts: list[list[str]] = [[]]
    for line in _with_frames_of_the_user(_OF_A_QUERY.sub("", text).splitlines()):
        if _STACK.fullmatch(line):
            parts.append([])
            continue
        if line.startswith("Caused by: "):
            parts.append([])
        parts[-1].append(_BEFORE_A_STATEMENT.sub("", line))
    statements: dict[str, str] = {}  # by its words: what is said twice may be in other lines
    for part in parts:
        statement = "\n".join(part).strip()
        words = " ".join(statement.split())
        if statement and not _OF_A_WORKER.fullmatch(statement) and not any(words in known for known in statements):
            statements = {known: said for known, said in statements.items() if known not in words} | {words: statement}
    return [*statements.values()] or [type(error).__name__]


def _with_frames_of_the_user(lines: list[str]) -> Iterator[str]:
    """Yield lines, and of each traceback of Python the frames of the user's code; all of one that has none of these."""
    frames: list[list[str]] = []
    for line in [*lines, ""]:
        if frames and line.startswith("  "):
            if _FRAME.fullmatch(line):
                frames.append([])
            frames[-1].append(line)
            continue
        begun = [frame for frame in frames if frame]
        yield from (part for frame in _of_the_user(begun) or begun for part in frame)
        frames = [[]] if line.endswith("Traceback (most recent call last):") else []
        yield line


def _of_the_user(frames: list[list[str]]) -> list[list[str]]:
    matched_frames = ((_FRAME.fullmatch(frame[0]), frame) for frame in frames)
    return [frame for match, frame in matched_frames if match is None or not _OF_THE_WAY.search(match[1])]


def _with_all(sentence: str, said: list[str]) -> str:
    """Return a sentence of ours, and below it what it does not have of what was said."""
    first, *others = said
    headline, _, rest = first.partition("\n")
    lines = [rest if headline in sentence else first, *others]
    return "\n".join([sentence, *(line for line in lines if line.strip() and line not in sentence)])


def _store_problem(text: str) -> str | None:
    """Return what an object store that is away means, as a sentence without its end; None for another error."""
    for line in text.splitlines():
        if _STORE_AWAY.search(line):
            reason = line.strip()
            return f"the object store did not respond as it should ({reason}); wait until it does"
    return None


def _unreadable_file(text: str) -> str | None:
    """Return what Spark says of a file that it cannot read, and what to do; None for another error."""
    for line in text.splitlines():
        if (at := line.find(_UNREADABLE_FILE)) >= 0:
            advice = _INPUT_GONE if "FILE_NOT_EXIST]" in line else _INPUT_DAMAGED
            return f"{line[at:].rstrip('. ')}. {advice}"
    return None


def _raised_by_us(said: list[str]) -> PanekeeperError | None:
    """Find the last line `package.Name: message` of a Python traceback that names an error of ours."""
    for statement in reversed(said):
        lines = statement.splitlines()
        for number in range(len(lines) - 1, -1, -1):
            rest = lines[number + 1 :]
            error = _named_by(lines[number], rest)
            # The Java exception that brought it may stand before it, in the same line; but a name inside the message
            # of an error of ours is a part of that message.
            if error is None and (java := _RAISED.match(lines[number])):
                error = _named_by(java[2], rest)
            if error is not None:
                return error
    return None


def _named_by(text: str, rest: list[str]) -> PanekeeperError | None:
    """Return the error of ours whose name a text begins with, and whose message goes on in the rest."""
    match = _RAISED.match(text)
    kind = getattr(errors, match[1], None) if match else None
    if match and isinstance(kind, type) and issubclass(kind, PanekeeperError):
        message = "\n".join(
            [match[2], *(line for line in rest if not line.startswith(" SQLSTATE: "))]
        )  # Spark's own end
        return kind(message.strip())
    return None


def _last_python_line(text: str) -> str | None:
    """Return the line of a worker's traceback that says what was raised: the user's own operator, most often."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if "Traceback (most recent call last)" in line]
    for line in lines[starts[-1] + 1 :] if starts else []:
        if line and not line.startswith((" ", "\t")):
            return line
    return None
