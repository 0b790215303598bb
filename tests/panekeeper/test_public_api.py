"""What users import: the names, what importing them costs, and that each of them says what it is."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import typing
from types import ModuleType

import pytest

import panekeeper
from panekeeper.framework.declarations import durations
from panekeeper.framework.testing import play
from tests.project.sources import ROOT

ERRORS = """
    ArchiveDenied ArchiveError ArchiveNotFound ArchiveUnreachable CheckpointError CheckpointInUse CorruptState
    DamagedSavepoint DeclarationError DrainTimeout EventError ForeignCheckpoint ForeignManifest IncompatibleCheckpoint
    InputError JobFailed JobFinished JobNotRunning LifecycleError NewerSavepoint NoSuchSavepoint NotConfirmed
    OutputNotWritable PanekeeperError SavepointError SavepointRefused SchemaMismatch SetupError SinkError StateError
    StateVersionError TableVersionLost UntrustedSavepoint
"""
DECLARATIONS = """
    AllOf AnyOf Batched Calendar Count Cumulate Delta Duration Emit Event EventType Every Listener Operator Pane
    PartitionAge PartitionCount PartitionUse Punctuation Reason Session Sliding SlidingByRow Time TimeInterval Timing
    Tumbling TupleCount UserPolicy agg days hours minutes seconds
"""
JOBS = """
    BatchReport Drained Job KafkaSink MetricsEndpoint Progress Sink Status job ports publish_metrics serve_metrics
    session windowed
"""
STATE = "CheckpointReason OpenPartition StateContext StateHandler"
SAVEPOINTS = """
    S3Options Savepoint Upkeep check_upgrade clone maintain prune rescale restore savepoint
    savepoints verify
"""
INSPECTOR = """
    Advice Replay Report RowsGone Settlement Trial advise capsule diff panes partitions replay report settle try_job why
"""
PUBLIC = sorted(["__version__", *f"{ERRORS} {DECLARATIONS} {JOBS} {STATE} {SAVEPOINTS} {INSPECTOR}".split()])
AGGREGATES = [
    "Aggregate",
    "UserAggregate",
    "all",
    "any",
    "approx_distinct",
    "arg_max",
    "arg_min",
    "bit_or",
    "collect",
    "corr",
    "count",
    "count_distinct",
    "count_if",
    "covariance",
    "expr",
    "first",
    "first_row",
    "histogram",
    "last",
    "last_row",
    "max",
    "mean",
    "min",
    "quantiles",
    "skewness",
    "stddev",
    "sum",
    "top_k",
    "top_rows",
    "user",
    "variance",
    "weighted_mean",
]


def imported_by(statement: str) -> set[str]:
    """The top-level packages that a fresh process has loaded after a statement."""
    program = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_the_public_names_are_these() -> None:
    """A name that comes or goes changes this list, the documentation and the changelog."""
    assert sorted(panekeeper.__all__) == PUBLIC
    assert sorted(dir(panekeeper)) == PUBLIC
    assert sorted(panekeeper.agg.__all__) == AGGREGATES


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in ("__version__", "Duration")])
def test_a_public_name_says_what_it_is(name: str) -> None:
    """In a docstring of more than one word, its own and not that of a base class."""
    named = getattr(panekeeper, name)
    documented = named.__doc__ if isinstance(named, ModuleType) else named.__dict__.get("__doc__") or named.__doc__
    assert documented
    assert len(documented.split()) > 1
    if inspect.isclass(named):
        assert all(documented != base.__doc__ for base in named.__mro__[1:])
        assert not documented.startswith(f"{name}("), "made by dataclass"


@pytest.mark.parametrize("name", AGGREGATES)
def test_an_aggregate_says_what_it_computes(name: str) -> None:
    """In a docstring of more than one word."""
    assert len((getattr(panekeeper.agg, name).__doc__ or "").split()) > 1


def test_a_duration_is_a_type_for_annotations() -> None:
    """It has no docstring of its own; its module has the grammar."""
    assert str in typing.get_args(panekeeper.Duration)
    assert "1 hour 30 minutes" in (durations.__doc__ or "")


def test_other_names_are_no_attributes() -> None:
    """As of every module."""
    with pytest.raises(AttributeError, match="module 'panekeeper' has no attribute 'windows'"):
        _ = panekeeper.windows


@pytest.mark.parametrize(
    "statement",
    [
        "import panekeeper, panekeeper.testing",
        "from panekeeper import Count, Tumbling, TimeInterval, Operator, StateHandler, agg, minutes, DeclarationError",
        "from panekeeper import savepoints, verify, S3Options",
    ],
)
def test_declarations_and_catalogs_load_neither_pyspark_nor_boto3(statement: str) -> None:
    """So they work where there is no Java, and start at once."""
    assert imported_by(statement) & {"pyspark", "delta", "py4j", "boto3", "pandas"} == set()


def test_the_test_kit_plays_without_pyspark() -> None:
    """A user's tests of a window need no Java."""
    vector = {
        "window": {"kind": "tumbling", "eviction": {"policy": "count", "size": 1}},
        "input": [{"at": 1, "value": {"v": 1}}],
    }
    assert "pyspark" not in imported_by(f"from panekeeper.testing import play\nassert len(play({vector!r})) == 2")


def test_play_takes_a_vector_and_how_to_run_it() -> None:
    """Its signature is used by tests outside this project."""
    assert list(inspect.signature(play).parameters) == ["vector", "engine", "cut", "restart_after", "spark"]


def test_the_version_is_one_of_three_numbers() -> None:
    """Wheels, savepoints and reports carry it."""
    assert re.fullmatch(r"\d+\.\d+\.\d+", panekeeper.__version__)


def test_a_name_that_is_not_there_says_which_was_meant() -> None:
    """As an error about a column does."""
    with pytest.raises(AttributeError, match="has no attribute 'Tumblng'; did you mean 'Tumbling'"):
        panekeeper.Tumblng  # noqa: B018 -- the attribute is the test
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        panekeeper.nonsense  # noqa: B018 -- as above
