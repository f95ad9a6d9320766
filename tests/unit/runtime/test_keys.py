"""Keys for pods that log in to each other are OpenSSH's own, and a seed gives the same ones."""

from __future__ import annotations

import random

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from allhands.runtime.keys import keys_from, new_keys


def test_a_private_key_is_read_by_others_and_belongs_to_the_public_one() -> None:
    for make in (new_keys, keys_from(random.Random(5))):
        pair = make()
        key = serialization.load_ssh_private_key(pair.private.encode(), None)
        assert isinstance(key, Ed25519PrivateKey)
        public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        assert pair.public == f"{public.decode()}\n"


def test_every_pair_is_another_and_a_seed_gives_the_same() -> None:
    assert new_keys() != new_keys()
    one, other = keys_from(random.Random(5)), keys_from(random.Random(5))
    first, second = one(), one()
    assert first != second
    assert (first, second) == (other(), other())
