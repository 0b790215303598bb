"""Which tables are not for small commits: by hand-written logs, by properties, by where they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from panekeeper.framework.engine.sink.library_rules import (
    NEW_TABLE,
    UnsupportedTable,
    create_table,
    local_folder,
    storage_options,
)
from panekeeper.framework.engine.sink.library_table import LibraryTable

COLUMN: dict[str, Any] = {"name": "id", "type": "long", "nullable": True, "metadata": {}}


def table(
    folder: Path,
    *,
    protocol: dict[str, Any] | None = None,
    properties: dict[str, str] | None = None,
    partition_by: tuple[str, ...] = (),
    **column: Any,
) -> str:
    """A table of one column without rows, by its log alone."""
    schema = {"type": "struct", "fields": [COLUMN | column]}
    metadata = {
        "id": "1",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": list(partition_by),
        "configuration": properties or {},
        "createdTime": 0,
    }
    actions = [{"protocol": protocol or {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    (folder / "_delta_log").mkdir()
    text = "\n".join(map(json.dumps, actions))
    (folder / "_delta_log" / f"{0:020d}.json").write_text(text)
    return str(folder)


def features(*names: str, read: tuple[str, ...] | None = None) -> dict[str, Any]:
    """The protocol of a table with single features."""
    if read is None:
        return {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": list(names)}
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": list(read), "writerFeatures": list(names)}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"properties": {"delta.checkpointInterval": "100", "delta.enableChangeDataFeed": "false", "owner": "me"}},
        {"metadata": {"comment": "a number"}},
        {"protocol": features("appendOnly", "invariants")},
        {"protocol": features("timestampNtz", read=("timestampNtz",)), "type": "timestamp_ntz"},
        {"type": {"type": "array", "elementType": "decimal(10,2)", "containsNull": True}},
    ],
)
def test_a_plain_table_is_written_directly(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Tables as Spark makes them for us, and features that change nothing for a writer of whole rows."""
    LibraryTable(table(tmp_path, **fields))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}}, "writer version 3"),
        ({"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, "reader version 2"),
        ({"protocol": features("deletionVectors", read=("deletionVectors",))}, "'deletionVectors'"),
        ({"protocol": features("columnMapping", read=("columnMapping",))}, "'columnMapping'"),
        ({"protocol": features("rowTracking", "domainMetadata")}, "'domainMetadata'"),
        ({"protocol": features("inCommitTimestamp")}, "'inCommitTimestamp'"),
        ({"protocol": features("checkConstraints")}, "'checkConstraints'"),
        ({"protocol": features("ofTheFuture")}, "ofTheFuture"),
        ({"protocol": features("ofTheFuture", read=("ofTheFuture",))}, "ofTheFuture"),
        ({"properties": {"delta.constraints.positive": "id > 0"}}, "delta.constraints.positive"),
        ({"properties": {"delta.enableChangeDataFeed": "true"}}, "delta.enableChangeDataFeed is 'true'"),
        ({"properties": {"delta.columnMapping.mode": "name"}}, "delta.columnMapping.mode is 'name'"),
        ({"properties": {"delta.ofTheFuture": "on"}}, "delta.ofTheFuture is 'on'"),
        ({"metadata": {"delta.generationExpression": "1"}}, "'delta.generationExpression'"),
        ({"metadata": {"delta.identity.start": 1}}, "'delta.identity.start'"),
        ({"metadata": {"delta.invariants": "{}"}}, "'delta.invariants'"),
        ({"nullable": False}, "'id' is NOT NULL"),
        ({"type": "variant"}, "variant"),
        ({"type": {"type": "struct", "fields": [COLUMN | {"nullable": False}]}}, "'id' is NOT NULL"),
        ({"partition_by": ("id",)}, "partitions it by the column 'id'"),
    ],
)
def test_a_table_that_needs_more_is_left_to_spark_and_the_reason_is_said(
    tmp_path: Path, fields: dict[str, Any], reason: str
) -> None:
    """Also what does not exist yet: only what is known to be written rightly is written."""
    with pytest.raises(UnsupportedTable, match=reason):
        LibraryTable(table(tmp_path, **fields))


@pytest.mark.parametrize("name", ["max delay", "a,b", "n=1", "(n)", "tab\there"])
@pytest.mark.parametrize("place", ["{}", '{{"type": "array", "containsNull": true, "elementType": {}}}'])
def test_a_table_with_names_that_spark_refuses_is_not_created(tmp_path: Path, name: str, place: str) -> None:
    """Spark could not restore it; a savepoint of the job would be of no use, and a restore never complete."""
    struct = json.dumps({"type": "struct", "fields": [COLUMN | {"name": name}]})
    schema = struct if place == "{}" else _schema_of_column(place.format(struct))
    with pytest.raises(UnsupportedTable, match="needs column mapping"):
        create_table(str(tmp_path / "log"), {}, schema, NEW_TABLE)
    create_table(str(tmp_path / "log"), {}, schema.replace(json.dumps(name), '"a.b`c"'), NEW_TABLE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta.checkpointInterval", "abc"),
        ("delta.checkpointInterval", "0"),
        ("delta.deletedFileRetentionDuration", "interval 1 month"),
        ("delta.logRetentionDuration", "forever"),
        ("delta.appendOnly", "maybe"),
        ("delta.nonsense", "false"),
    ],
)
def test_properties_of_a_user_are_for_spark_to_check(tmp_path: Path, name: str, value: str) -> None:
    """With such a value nothing could commit to the table, or read it, also once the program is corrected."""
    with pytest.raises(UnsupportedTable, match="for Spark to check"):
        create_table(str(tmp_path / "log"), {}, _schema_of_column('"long"'), NEW_TABLE | {name: value})
    assert not (tmp_path / "log").exists()


def _schema_of_column(type_: str) -> str:
    return json.dumps({"type": "struct", "fields": [COLUMN | {"type": json.loads(type_)}]})


def test_what_is_no_table_or_is_elsewhere_is_left_to_spark(tmp_path: Path) -> None:
    """Spark then says what is wrong, or writes where only it can."""
    for path in (str(tmp_path), "hdfs://host/log", "abfss://container@account/log", "s3://bucket/log"):
        with pytest.raises(UnsupportedTable):
            LibraryTable(path)
    LibraryTable(f"file:{table(tmp_path)}")


def test_paths_on_a_local_disk_are_distinguished_from_others() -> None:
    """Spark writes them with and without a scheme, and takes a URL as it is: else rows would go to another table."""
    for folder in ("/data/my log", "/data/my%20log", "/data/run#3/log", "/data/what?/log"):
        assert local_folder(folder) == local_folder(f"file:{folder}") == local_folder(f"file://{folder}") == folder
    assert local_folder("file://host/data") is None
    assert local_folder("s3a://bucket/log") is None


def test_the_library_gets_the_store_and_the_credentials_that_spark_uses() -> None:
    """As Hadoop's settings say it; a store of one's own may speak plain HTTP."""
    own = {"endpoint": "http://127.0.0.1:9000", "path.style.access": "true", "access.key": "k", "secret.key": "s"}
    assert storage_options(own) == {
        "aws_conditional_put": "etag",
        "aws_access_key_id": "k",
        "aws_secret_access_key": "s",
        "aws_endpoint": "http://127.0.0.1:9000",
        "aws_allow_http": "true",
        "aws_virtual_hosted_style_request": "false",
        "aws_region": "us-east-1",
    }
    bare = storage_options({"endpoint": "host:9000", "connection.ssl.enabled": "false"})
    assert bare["aws_endpoint"] == "http://host:9000"
    amazon = {"endpoint": "s3.amazonaws.com", "endpoint.region": "eu-west-1"}
    assert storage_options(amazon) == {
        "aws_conditional_put": "etag",
        "aws_region": "eu-west-1",
    }


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"encryption.algorithm": "SSE-KMS"}, "fs.s3a.encryption.algorithm"),
        ({"acl.default": "BucketOwnerFullControl"}, "fs.s3a.acl.default"),
        ({"requester.pays.enabled": "true"}, "requester.pays"),
        ({"aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"}, "AssumedRole"),
    ],
)
def test_what_the_library_has_no_counterpart_for_is_left_to_spark(settings: dict[str, str], reason: str) -> None:
    """An unencrypted file in a bucket that demands a key would be worse than a slow commit."""
    with pytest.raises(UnsupportedTable, match=reason):
        storage_options(settings)
