"""What the error says where the name of a table leads to another folder than before."""

from __future__ import annotations

import pytest

from panekeeper.framework.builder.named_tables import _moved

CREATE = "CREATE TABLE m.view USING delta LOCATION '/old'"


@pytest.mark.parametrize(
    ("found", "is_there", "way_out"),
    [
        (None, True, f"To register that folder again, {CREATE}; or"),
        ("/new", True, f"rename the table that has its name (ALTER TABLE m.view RENAME TO ...), and {CREATE}; or"),
        (None, False, "rename it back"),
        ("/new", False, "rename it back"),
    ],
)
def test_the_way_out_fits_what_is_there(found: str | None, way_out: str, *, is_there: bool) -> None:
    """A statement that registers a folder without a table would make an empty one there."""
    text = _moved("m.view", "/old", found, is_there=is_there)
    assert way_out in text
    assert (CREATE in text) == is_there
