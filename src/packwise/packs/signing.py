"""Ed25519 signatures of releases. A key is a PEM file; its public half is 64 hex digits."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packwise.errors import NotAStore, StoreError, UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_PUBLIC = re.compile(r"[0-9a-f]{64}")
_SIGNATURE = re.compile(r"[0-9a-f]{128}")


class BadSignature(StoreError):
    """A release is not signed as it has to be."""


def make_key(path: Path) -> str:
    """Write a new private key that only you can read. Returns its public key."""
    _, serialization = _library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    content = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", fix="name a new file") from error
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return _public(key)


def sign(text: str, key_file: Path) -> str:
    """The signature of a text, as the text of ``release.sig``."""
    key = _read_key(key_file)
    signature = key.sign(text.encode()).hex()
    return json.dumps({"key": _public(key), "signature": signature}, indent=2) + "\n"


def check(text: str, signature: str, wanted: str | None = None) -> str:
    """The public key that signed a text. Raises ``BadSignature`` where the signature is wrong or
    made with another key than ``wanted``."""
    if wanted is not None and not _PUBLIC.fullmatch(wanted):
        raise UsageError(f"{wanted!r} is not a public key", fix="64 hex digits: packwise pack key")
    try:
        values: Any = json.loads(signature)
        key, signed = str(values["key"]), str(values["signature"])
        if not _PUBLIC.fullmatch(key) or not _SIGNATURE.fullmatch(signed):
            raise ValueError("not hex digits")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotAStore(f"the signature cannot be read: {error}") from error
    if wanted is not None and key != wanted:
        raise BadSignature(f"it is signed with another key: {key}", fix="ask its author")
    invalid, _ = _library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(
            bytes.fromhex(signed), text.encode()
        )
    except (invalid, ValueError) as error:
        raise BadSignature(
            "its signature does not fit its content", fix="ask its author"
        ) from error
    return key


def public_key(key_file: Path) -> str:
    """The public key that belongs to a private one."""
    return _public(_read_key(key_file))


def _read_key(path: Path) -> Ed25519PrivateKey:
    _, serialization = _library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"cannot read the key {path}: {error}", fix="packwise pack key") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path} is not an Ed25519 key", fix="packwise pack key")
    return key


def _public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise UsageError(
            "signatures need the package cryptography", fix="pip install 'packwise[sign]'"
        ) from error
    return InvalidSignature, serialization
