"""Whatever is in a location, a manifest within the rules is read or an error of savepoints is raised."""

from __future__ import annotations

import hashlib
import json
from pathlib import PurePosixPath
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from panekeeper.recovery.errors import SavepointError
from panekeeper.recovery.savepoint.manifest import Manifest
from panekeeper.state.table_roles import KINDS, is_role
from tests.recovery.savepoint.test_manifest import MANIFEST

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
PARTS = st.sampled_from(
    ["..", ".", "", "state", "panekeeper", "job.json", "running.json", "~", "a\\b", "\0", "e\u0301"]
)
PATHS = st.lists(PARTS | st.text(max_size=4), max_size=5).map("/".join)
FILES = st.fixed_dictionaries(
    {
        "path": PATHS | VALUES,
        "size": st.integers(-1, 2**70) | VALUES,
        "sha256": st.sampled_from(["ab" * 32, "../" + "a" * 61, "AB" * 32, "ab" * 32 + "\n"]) | VALUES,
    }
)
TABLES = st.dictionaries(
    st.sampled_from([*KINDS, "log_hour", "view_last_day", "../log"]) | st.text(max_size=4),
    st.fixed_dictionaries(
        {"path": PATHS | VALUES, "version": st.integers() | VALUES},
        optional={"sha256": st.sampled_from(["ab" * 32, "AB" * 32]) | VALUES},
    ),
    max_size=3,
)


def content() -> dict[str, Any]:
    """The fields of a manifest that is read."""
    return dict(json.loads(MANIFEST.encode())["content"])


def with_checksum(fields: Any, **more: Any) -> bytes:
    """A manifest of these fields, as somebody writes it who knows the format."""
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
    return json.dumps(
        {"kind": "panekeeper savepoint", "format": 1, "sha256": digest, "content": fields, **more}
    ).encode()


def require_read_or_refused(data: bytes) -> None:
    """The bytes are a manifest with no path that leads out, or are refused by an error of savepoints."""
    try:
        found = Manifest.decode(data, "one")
    except SavepointError:
        return
    for file in found.files:
        path = PurePosixPath(file.path)
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert str(path) == file.path
        assert file.blob == f"blobs/{bytes.fromhex(file.sha256).hex()}"
        assert "\0" not in file.path
        assert "\\" not in file.path
    assert all(map(is_role, found.tables))
    assert Manifest.decode(found.encode(), "one") == found


@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_refused(data: bytes) -> None:
    """By an error of savepoints, and no other."""
    require_read_or_refused(data)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(sorted(content())), VALUES | PATHS, min_size=1, max_size=3))
def test_any_value_of_any_field_is_checked(fields: dict[str, Any]) -> None:
    """With a checksum that fits."""
    require_read_or_refused(with_checksum(content() | fields))


@settings(max_examples=300)
@given(st.lists(FILES, max_size=3), TABLES)
def test_no_path_of_a_file_leads_out_of_a_checkpoint(files: list[dict[str, Any]], tables: dict[str, Any]) -> None:
    """And no file of the manifest is a blob that is none, or of a role that is none."""
    fields = content()
    require_read_or_refused(with_checksum(fields | {"files": [*fields["files"], *files], "tables": tables}))


@given(VALUES, VALUES)
def test_any_format_and_any_signature_are_refused_or_read(version: Any, signature: Any) -> None:
    """Also with a key set."""
    data = with_checksum(content(), format=version, signature=signature)
    require_read_or_refused(data)
    try:
        Manifest.decode(data, "one", b"k" * 16)
    except SavepointError:
        return
    raise AssertionError("it was taken for signed")


def test_deep_nesting_is_refused() -> None:
    """It does not end the reader."""
    for depth in (1_000, 100_000):
        require_read_or_refused(b"[" * depth + b"]" * depth)
        require_read_or_refused(
            b'{"kind": "panekeeper savepoint", "format": 1, "content": ' + b"[" * depth + b"]" * depth + b"}"
        )
