"""Signatures of manifests: with a key in the environment, a savepoint of somebody without the key is not used.

The key is text in the variable PANEKEEPER_MANIFEST_KEY, the signature the HMAC-SHA256 of the manifest's content. A
checksum finds damage; only a signature finds a manifest that was written by somebody else.
"""

from __future__ import annotations

import hashlib
import hmac
import os

from panekeeper.recovery.errors import SavepointRefused

KEY_VARIABLE = "PANEKEEPER_MANIFEST_KEY"
_MIN_LENGTH = 16


def manifest_key() -> bytes | None:
    """Return the key that manifests are signed with; None if none is set.

    Raises:
        SavepointRefused: the key is empty or short. It is never repeated in a message.
    """
    key = os.environ.get(KEY_VARIABLE)
    if key is None:
        return None
    data = os.fsencode(key)
    if len(data) < _MIN_LENGTH:
        raise SavepointRefused(
            f"{KEY_VARIABLE} has {len(data)} bytes; give it {_MIN_LENGTH} or more random ones (openssl rand -hex 32), "
            "or unset it"
        )
    return data


def signature_of(content: bytes, key: bytes) -> str:
    """Return the signature of the bytes of a manifest's content, in hexadecimal digits."""
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def is_signed(content: bytes, signature: object, key: bytes) -> bool:
    """Return whether a signature, of any type, is that of these bytes."""
    if not isinstance(signature, str) or not signature.isascii():
        return False
    return hmac.compare_digest(signature, signature_of(content, key))
