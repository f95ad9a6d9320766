"""Yes-or-no answers about names, remembered: a cluster writes the same names again and again.

Long texts are never remembered, so that the memory stays bounded. Who gets a no asks `names` for the words.
"""

from __future__ import annotations

from functools import lru_cache

from allhands.api import names

_MAX_REMEMBERED_CHARACTERS = 253


@lru_cache(maxsize=4096)
def _label(text: str) -> bool:
    return not names.dns1123_label(text)


@lru_cache(maxsize=4096)
def _subdomain(text: str) -> bool:
    return not names.dns1123_subdomain(text)


@lru_cache(maxsize=4096)
def _variable(text: str) -> bool:
    return not names.env_var_name(text)


def is_label(text: str) -> bool:
    return len(text) <= names.LABEL_MAX_BYTES and _label(text)


def is_subdomain(text: str) -> bool:
    return len(text) <= names.SUBDOMAIN_MAX_BYTES and _subdomain(text)


def is_variable(text: str) -> bool:
    return _variable(text) if len(text) <= _MAX_REMEMBERED_CHARACTERS else not names.env_var_name(text)
