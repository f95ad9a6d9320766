"""The grammars of names in the API: labels, sub-domains, label keys and values, ports, keys of maps.

Each check returns what is wrong as the sentences a kube-apiserver would use; an empty list means the value is fine.
Lengths are counted in bytes of UTF-8, as the server does. No check may ever change the value it looks at.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LABEL_MAX_BYTES: Final = 63
SUBDOMAIN_MAX_BYTES: Final = 253
_QUALIFIED_MAX_BYTES: Final = SUBDOMAIN_MAX_BYTES + 1 + LABEL_MAX_BYTES

_DNS1123_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS1123_SUBDOMAIN: Final = rf"{_DNS1123_LABEL}(\.{_DNS1123_LABEL})*"
_DNS1035_LABEL: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_KEY_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_LABEL_KEY_NAME})?"
_C_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_CONFIG_MAP_KEY: Final = "[-._a-zA-Z0-9]+"
_PERCENT: Final = "[0-9]+%"

_match_dns1123_label = re.compile(_DNS1123_LABEL).fullmatch
_match_dns1123_subdomain = re.compile(_DNS1123_SUBDOMAIN).fullmatch
_match_dns1035_label = re.compile(_DNS1035_LABEL).fullmatch
_match_label_key_name = re.compile(_LABEL_KEY_NAME).fullmatch
_match_label_value = re.compile(_LABEL_VALUE).fullmatch
_match_c_identifier = re.compile(_C_IDENTIFIER).fullmatch
_match_config_map_key = re.compile(_CONFIG_MAP_KEY).fullmatch
_match_percent = re.compile(_PERCENT).fullmatch
_match_env_var_name = re.compile("[ -<>-~]+").fullmatch
_match_port_charset = re.compile("[-a-z0-9]+").fullmatch
_search_lower_letter = re.compile("[a-z]").search

_ALNUM_EDGES: Final = "and must start and end with an alphanumeric character"


def bytes_of(value: str) -> int:
    """The length the server sees."""
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))


def max_characters(limit: int) -> str:
    """The text says characters where the server's older checks do; it, too, counts bytes."""
    return f"must be no more than {limit} characters"


def max_bytes(limit: int) -> str:
    return f"must be no more than {limit} bytes"


def regex_text(words: str, pattern: str, *examples: str) -> str:
    """How every refusal by a grammar ends: with examples and the pattern itself."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{words} ({'e.g. ' if shown else ''}{shown}regex used for validation is '{pattern}')"


_DNS1123_LABEL_TEXT: Final = regex_text(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', " + _ALNUM_EDGES,
    _DNS1123_LABEL,
    "my-name",
    "123-abc",
)
_DNS1123_SUBDOMAIN_TEXT: Final = regex_text(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', " + _ALNUM_EDGES,
    _DNS1123_SUBDOMAIN,
    "example.com",
)
_DNS1035_LABEL_TEXT: Final = regex_text(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _DNS1035_LABEL,
    "my-name",
    "abc-123",
)
_LABEL_KEY_TEXT: Final = regex_text(
    "must consist of alphanumeric characters, '-', '_' or '.', " + _ALNUM_EDGES,
    _LABEL_KEY_NAME,
    "MyName",
    "my.name",
    "123-abc",
)
_LABEL_VALUE_TEXT: Final = regex_text(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', " + _ALNUM_EDGES,
    _LABEL_VALUE,
    "MyValue",
    "my_value",
    "12345",
)
_C_IDENTIFIER_TEXT: Final = regex_text(
    "a valid C identifier must start with alphabetic character or '_', "
    "followed by a string of alphanumeric characters or '_'",
    _C_IDENTIFIER,
    "my_name",
    "MY_NAME",
    "MyName",
)
_CONFIG_MAP_KEY_TEXT: Final = regex_text(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _CONFIG_MAP_KEY,
    "key.name",
    "KEY_NAME",
    "key-name",
)
_ENV_VAR_TEXT: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)


def dns1123_label(value: str) -> list[str]:
    if len(value) <= LABEL_MAX_BYTES and _match_dns1123_label(value):
        return []
    errors = []
    if bytes_of(value) > LABEL_MAX_BYTES:
        errors.append(max_characters(LABEL_MAX_BYTES))
    if not _match_dns1123_label(value):
        errors.append("must not contain dots" if _match_dns1123_subdomain(value) else _DNS1123_LABEL_TEXT)
    return errors


def dns1123_subdomain(value: str) -> list[str]:
    if len(value) <= SUBDOMAIN_MAX_BYTES and _match_dns1123_subdomain(value):
        return []
    errors = []
    if bytes_of(value) > SUBDOMAIN_MAX_BYTES:
        errors.append(max_characters(SUBDOMAIN_MAX_BYTES))
    if not _match_dns1123_subdomain(value):
        errors.append(_DNS1123_SUBDOMAIN_TEXT)
    return errors


def dns1035_label(value: str) -> list[str]:
    if len(value) <= LABEL_MAX_BYTES and _match_dns1035_label(value):
        return []
    errors = []
    if bytes_of(value) > LABEL_MAX_BYTES:
        errors.append(max_characters(LABEL_MAX_BYTES))
    if not _match_dns1035_label(value):
        errors.append(_DNS1035_LABEL_TEXT)
    return errors


@lru_cache(maxsize=4096)
def _is_qualified_name(value: str) -> bool:
    prefix, slash, name = value.rpartition("/")
    if slash and not (len(prefix) <= SUBDOMAIN_MAX_BYTES and _match_dns1123_subdomain(prefix)):
        return False
    return len(name) <= LABEL_MAX_BYTES and _match_label_key_name(name) is not None


def is_qualified_name(value: str) -> bool:
    """The quick answer. Longer values never enter the cache, so that its memory stays bounded."""
    return len(value) <= _QUALIFIED_MAX_BYTES and _is_qualified_name(value)


def qualified_name(value: str) -> list[str]:
    """`name` or `example.com/name`."""
    if is_qualified_name(value):
        return []
    parts = value.split("/")
    if len(parts) > 2:
        prefixed = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_LABEL_KEY_TEXT} {prefixed}"]
    errors = _prefix_errors(parts[0]) if len(parts) == 2 else []
    name = parts[-1]
    if not name:
        errors.append("name part must be non-empty")
    elif bytes_of(name) > LABEL_MAX_BYTES:
        errors.append(f"name part {max_bytes(LABEL_MAX_BYTES)}")
    if not _match_label_key_name(name):
        errors.append(f"name part {_LABEL_KEY_TEXT}")
    return errors


def _prefix_errors(prefix: str) -> list[str]:
    if not prefix:
        return ["prefix part must be non-empty"]
    errors = []
    if bytes_of(prefix) > SUBDOMAIN_MAX_BYTES:
        errors.append(f"prefix part {max_bytes(SUBDOMAIN_MAX_BYTES)}")
    if not _match_dns1123_subdomain(prefix):
        errors.append(f"prefix part {_DNS1123_SUBDOMAIN_TEXT}")
    return errors


label_key = qualified_name


@lru_cache(maxsize=16384)
def _is_label_value(value: str) -> bool:
    return _match_label_value(value) is not None


def is_label_value(value: str) -> bool:
    """The quick answer."""
    return len(value) <= LABEL_MAX_BYTES and _is_label_value(value)


def label_value(value: str) -> list[str]:
    if is_label_value(value):
        return []
    errors = []
    if bytes_of(value) > LABEL_MAX_BYTES:
        errors.append(max_bytes(LABEL_MAX_BYTES))
    if not _match_label_value(value):
        errors.append(_LABEL_VALUE_TEXT)
    return errors


def path_segment_name(value: str) -> list[str]:
    """What a name must be to stand in a URL, whatever the kind. Says nothing about empty or long names."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return path_segment_prefix(value)


def path_segment_prefix(value: str) -> list[str]:
    """The same for the beginning of a name, to which something will be appended."""
    return [f"may not contain '{sign}'" for sign in "/%" if sign in value]


def c_identifier(value: str) -> list[str]:
    return [] if _match_c_identifier(value) else [_C_IDENTIFIER_TEXT]


def env_var_name(value: str) -> list[str]:
    """The relaxed rule, which is the only one since Kubernetes 1.34."""
    if _match_env_var_name(value):
        return []
    return [_ENV_VAR_TEXT] if value else ["environment variable name must be non-empty"]


def config_map_key(value: str) -> list[str]:
    """A key of a ConfigMap or of a Secret, which becomes a file name."""
    errors = []
    if bytes_of(value) > SUBDOMAIN_MAX_BYTES:
        errors.append(max_characters(SUBDOMAIN_MAX_BYTES))
    if not _match_config_map_key(value):
        errors.append(_CONFIG_MAP_KEY_TEXT)
    if value in (".", ".."):
        errors.append(f"must not be '{value}'")
    elif value.startswith(".."):
        errors.append("must not start with '..'")
    return errors


def port_name(value: str) -> list[str]:
    errors = []
    if bytes_of(value) > 15:
        errors.append(max_characters(15))
    if not _match_port_charset(value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _search_lower_letter(value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def in_range(value: int, low: int, high: int) -> list[str]:
    return [] if low <= value <= high else [f"must be between {low} and {high}, inclusive"]


def port_number(value: int) -> list[str]:
    return in_range(value, 1, 65535)


def user_or_group_id(value: int) -> list[str]:
    return in_range(value, 0, 2**31 - 1)


def percent(value: str) -> list[str]:
    if _match_percent(value):
        return []
    words = "a valid percent string must be a numeric string followed by an ending '%'"
    return [regex_text(words, _PERCENT, "1%", "93%")]
