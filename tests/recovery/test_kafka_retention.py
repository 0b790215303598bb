"""What is read of the settings for a broker, and what is said of one that does not respond."""

from __future__ import annotations

from pathlib import Path

import pytest

from panekeeper import SetupError
from panekeeper.recovery.errors import BrokerUnavailable
from panekeeper.recovery.kafka import SourceOffsets, deleted_messages, read_config

OFFSETS = SourceOffsets(batch=3, sources={0: {"t": {"0": 5}}})


def test_settings_are_read_as_kafkas_own_tools_read_them(tmp_path: Path) -> None:
    """Comments and empty lines are left out; a value may hold an equals sign."""
    path = tmp_path / "client.properties"
    path.write_text("# how to log in\n\nsecurity.protocol = SASL_SSL\nsasl.password=a=b\n")
    assert read_config(path) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b"}


@pytest.mark.parametrize("text", ["security.protocol", "a=1\nb"])
def test_a_line_that_is_no_setting_is_refused(tmp_path: Path, text: str) -> None:
    """The error names the line."""
    path = tmp_path / "client.properties"
    path.write_text(text)
    with pytest.raises(SetupError, match=r"line \d of .* is not name=value"):
        read_config(path)


def test_a_file_of_settings_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Not taken for one without settings."""
    with pytest.raises(SetupError, match="cannot be read"):
        read_config(tmp_path / "none")


def test_a_broker_that_does_not_respond_is_named() -> None:
    """The error has the address, and what to check."""
    with pytest.raises(BrokerUnavailable, match=r"Kafka at 127\.0\.0\.1:9 did not respond.*check the address"):
        deleted_messages(OFFSETS, "127.0.0.1:9", timeout=0.5)


def test_a_setting_that_the_client_does_not_know_is_named() -> None:
    """It is no fault of the broker's, and no traceback."""
    with pytest.raises(BrokerUnavailable, match=r"no\.such\.setting"):
        deleted_messages(OFFSETS, "127.0.0.1:9", config={"no.such.setting": "1"}, timeout=0.5)
