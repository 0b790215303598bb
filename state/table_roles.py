"""The roles of the tables of a job: what each is for. A job with several windows has a log, and a view, for each.

The role of a table is its kind, `log`; of a table of one of several windows the name of that follows, `log_hour`.
"""

from __future__ import annotations

import re

KINDS = ("log", "view", "quarantine", "metrics", "downtime")
"""What a job can have; the first two hold results."""
_RESULTS = ("log", "view")
_OWNED = ("log", "view", "metrics")
_ROLE = re.compile(r"(log|view)(_[a-z]\w*)?|quarantine|metrics|downtime", re.ASCII | re.IGNORECASE)


def role_of(kind: str, window: str = "") -> str:
    """Return the role of a table; `window` names one of several windows.

    >>> role_of("log"), role_of("view", "hour")
    ('log', 'view_hour')
    """
    return f"{kind}_{window}" if window else kind


def kind_of(role: str) -> str:
    """Return what a table is, of whichever window.

    >>> kind_of("view_hour"), kind_of("metrics")
    ('view', 'metrics')
    """
    return role.partition("_")[0]


def window_of(role: str) -> str:
    """Return which of several windows a table is of; empty: of the only one, or of all.

    >>> window_of("view_last_hour"), window_of("log")
    ('last_hour', '')
    """
    return role.partition("_")[2]


def has_results(role: str) -> bool:
    """Return whether a table holds results: it is a log, or a view."""
    return kind_of(role) in _RESULTS


def is_owned(role: str) -> bool:
    """Return whether no other job writes to the table.

    Nor does one to a table on S3 that only Spark writes: its commit there takes no condition, so it might take the
    place of one of another job.
    """
    return kind_of(role) in _OWNED


def is_role(text: str) -> bool:
    """Return whether a job can have a table of this role.

    >>> is_role("log_hour"), is_role("metrics_hour")
    (True, False)
    """
    return _ROLE.fullmatch(text) is not None


def folder_name(role: str) -> str:
    """Return what the folder of a table is called beside a log that is called `log`, if nothing else is declared.

    >>> folder_name("log_hour"), folder_name("metrics")
    ('log_hour', 'log_metrics')
    """
    return role if has_results(role) else f"log_{role}"


def has_results_by_name(folder: str) -> bool:
    """Return whether a folder that `folder_name` names holds results.

    >>> has_results_by_name("view_hour"), has_results_by_name("log_metrics")
    (True, False)
    """
    return has_results(folder) and window_of(folder) not in KINDS
