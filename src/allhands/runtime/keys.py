"""Makes the key pairs that pods of a job log in to each other with: ed25519, in OpenSSH's own text.

Real keys come from the system's randomness. Simulations pass a generator of their own, so that a seed gives the same
keys; such keys protect nothing.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import textwrap
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from allhands.lifecycle.volcano_job.extension import KeyPair

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

SEED_BYTES: Final = 32
ALGORITHM: Final = b"ssh-ed25519"
MAGIC: Final = b"openssh-key-v1\0"
BLOCK_BYTES: Final = 8
LINE_LENGTH: Final = 70


def new_keys() -> KeyPair:
    """A pair that nobody can guess."""
    return _pair(secrets.token_bytes(SEED_BYTES))


def keys_from(generator: random.Random) -> Callable[[], KeyPair]:
    """The same pairs, one after the other, for the same generator. Never for a real cluster."""
    return lambda: _pair(generator.randbytes(SEED_BYTES))


def _pair(seed: bytes) -> KeyPair:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    point = key.public_key().public_bytes_raw()
    public = _strings(ALGORITHM, point)
    return KeyPair(_private_text(seed, point, public), f"{ALGORITHM.decode()} {base64.b64encode(public).decode()}\n")


def _private_text(seed: bytes, point: bytes, public: bytes) -> str:
    """As ssh-keygen writes a key without a passphrase. `cryptography` would put random check numbers into it, and the
    same seed would not give the same text."""
    check = hashlib.sha256(public).digest()[:4]
    section = check * 2 + _strings(ALGORITHM, point, seed + point, b"")
    section += bytes(range(1, -len(section) % BLOCK_BYTES + 1))
    whole = MAGIC + _strings(b"none", b"none", b"") + (1).to_bytes(4, "big") + _strings(public, section)
    lines = textwrap.wrap(base64.b64encode(whole).decode(), LINE_LENGTH)
    return "\n".join(["-----BEGIN OPENSSH PRIVATE KEY-----", *lines, "-----END OPENSSH PRIVATE KEY-----", ""])


def _strings(*parts: bytes) -> bytes:
    """Each with its length before it."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)
