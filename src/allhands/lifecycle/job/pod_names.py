"""Names of a Job's pods: as the API generates them, but worked out from the Job and a number.

The same Job in the same state asks for the same names: a create whose answer was lost is refused when it is repeated,
instead of making one pod too many. A name that is taken is passed over.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels and look-alikes, so that no words come out."""
SUFFIX_LENGTH: Final = 5
LONGEST_PREFIX: Final = 63 - SUFFIX_LENGTH


def plain_prefix(job_name: str) -> str:
    return f"{job_name}-"[:LONGEST_PREFIX]


def index_prefix(job_name: str, index: int) -> str:
    """Of an over-long name the index is kept and the Job's name is cut."""
    ending = f"-{index}-"
    return job_name[: LONGEST_PREFIX - len(ending)] + ending


def suffix(job_uid: str, number: int) -> str:
    value = int.from_bytes(hashlib.blake2b(f"{job_uid}/{number}".encode(), digest_size=8).digest(), "big")
    letters = []
    for _ in range(SUFFIX_LENGTH):
        value, letter = divmod(value, len(ALPHABET))
        letters.append(ALPHABET[letter])
    return "".join(letters)


def free_name(prefix: str, job_uid: str, number: int, taken: Callable[[str], bool]) -> tuple[str, int]:
    """The first name from this number on that is free, and its number."""
    while True:
        name = prefix + suffix(job_uid, number)
        if not taken(name):
            return name, number
        number += 1
