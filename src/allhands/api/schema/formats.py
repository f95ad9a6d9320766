"""The string formats that the schema of a custom kind may ask for, each as a function from text to yes or no.

They accept what the Go functions behind the real server accept, also where a standard would say otherwise. Formats that
are not in the table are ignored by the server, and so here.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_HEX = "[0-9a-fA-F]"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_COLOUR = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_CREDIT_CARD = re.compile(
    "(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    "|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})"
)
_CLOCK = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_GO_DURATION = re.compile(r"[+-]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_SCALA_DURATION = re.compile(r"\d+\s*([A-Za-zµ]+)", re.ASCII)
_SCALA_UNITS: Final = (
    ("ns", "nano"),
    ("us", "µs", "micro"),
    ("ms", "milli"),
    ("s", "sec"),
    ("m", "min"),
    ("h", "hr", "hour"),
    ("d", "day"),
    ("w", "wk", "week"),
)
_EMAIL = re.compile(r"[^\s@<>\"]+(\.[^\s@<>\"]+)*@[^\s@<>\"]+|[^<>]*<[^\s@<>]+@[^\s@<>]+>")
_URI_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_MAC = re.compile(
    rf"{_HEX}{{2}}([:-])({_HEX}{{2}}\1){{4}}{_HEX}{{2}}|{_HEX}{{2}}([:-])({_HEX}{{2}}\3){{6}}{_HEX}{{2}}"
    rf"|{_HEX}{{4}}\.{_HEX}{{4}}\.{_HEX}{{4}}(\.{_HEX}{{4}})?"
    rf"|{_HEX}{{2}}([:-])({_HEX}{{2}}\6){{18}}{_HEX}{{2}}"
)
_HOST_CHAR = r"[^\W_]"


def _matching(pattern: str) -> Callable[[str], bool]:
    match = re.compile(pattern, re.ASCII).fullmatch
    return lambda text: match(text) is not None


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and bool(datetime.date.fromisoformat(text))
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) < 2 or not _is_date(parts[0]):
        return False
    clock = _CLOCK.fullmatch(parts[1])
    return clock is not None and clock[1] <= "23" and clock[2] <= "59" and clock[3] <= "59"


def _is_duration(text: str) -> bool:
    if _GO_DURATION.fullmatch(text):
        return True
    return any(_is_time_unit(unit.lower()) for unit in _SCALA_DURATION.findall(text))


def _is_time_unit(unit: str) -> bool:
    return any(unit in variants or unit.startswith(variants[-1]) for variants in _SCALA_UNITS)


def _is_credit_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    if not _CREDIT_CARD.fullmatch(digits):
        return False
    doubled = [int(digit) * (1 + position % 2) for position, digit in enumerate(reversed(digits))]
    return sum(number // 10 + number % 10 for number in doubled) % 10 == 0


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch("[0-9]{9}[0-9X]", digits):
        return False
    return sum((index + 1) * (10 if digit == "X" else int(digit)) for index, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch("[0-9]{13}", digits):
        return False
    return sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(digits)) % 10 == 0


def _is_ipv4(text: str) -> bool:
    """Leading zeros are forgiven; so is an IPv6 address that ends like an IPv4 one."""
    try:
        ipaddress.ip_address(re.sub(r"(?<![0-9A-Fa-f:])0+(?=[0-9])", "", text))
    except ValueError:
        return False
    return "." in text


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return "%" not in text


def _is_cidr(text: str) -> bool:
    address, slash, prefix = text.partition("/")
    if not slash or not prefix.isascii() or not prefix.isdigit():
        return False
    try:
        ipaddress.ip_interface(f"{re.sub(r'(?<![0-9A-Fa-f:])0+(?=[0-9])', '', address)}/{int(prefix)}")
    except ValueError:
        return False
    return "%" not in text


def _is_uri(text: str) -> bool:
    """An absolute path, or anything with a scheme; no blanks or control characters."""
    if any(ord(char) <= 0x20 or char == "\x7f" for char in text) or re.search("%(?![0-9A-Fa-f]{2})", text):
        return False
    return text.startswith("/") or _URI_SCHEME.match(text) is not None


def _is_hostname(text: str) -> bool:
    if len(text.encode()) > 255 or any(len(part.encode()) > 63 for part in text.split(".")):
        return False
    labels = text.split(".")
    inner = re.compile(rf"{_HOST_CHAR}((?:{_HOST_CHAR}|-){{0,61}}{_HOST_CHAR})?")
    if len(labels) == 1:
        return re.fullmatch(rf"{_HOST_CHAR}(-?{_HOST_CHAR}{{0,62}})?", text) is not None
    top = labels[-1]
    return all(inner.fullmatch(label) for label in labels[:-1]) and top.isalpha() and 2 <= len(top) <= 63


def _is_short_name(text: str) -> bool:
    return len(text) <= 63 and re.fullmatch(_LABEL, text) is not None


def _is_long_name(text: str) -> bool:
    return len(text) <= 253 and re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text) is not None


def _uuid(third: str, fourth: str) -> Callable[[str], bool]:
    return _matching(rf"(?i:[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}})")


_ANY_4, _VARIANT = "[0-9a-f]{4}", "[89ab][0-9a-f]{3}"

_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matching(f"{_HEX}{{24}}"),
    "uri": _is_uri,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uuid": _uuid(_ANY_4, _ANY_4),
    "uuid3": _uuid("3[0-9a-f]{3}", _ANY_4),
    "uuid4": _uuid("4[0-9a-f]{3}", _VARIANT),
    "uuid5": _uuid("5[0-9a-f]{3}", _VARIANT),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _matching(r"(?=.{11}$)\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "hexcolor": _matching(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _matching(rf"rgb\({_COLOUR},{_COLOUR},{_COLOUR}\)"),
    "byte": lambda text: _BASE64.fullmatch(text) is not None,
    "password": lambda _text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8sshortname": _is_short_name,
    "k8slongname": _is_long_name,
}


def format_check(name: str) -> Callable[[str], bool] | None:
    """The check of a format; None if the server does not know it. Dashes in names do not matter."""
    return _FORMATS.get(name.replace("-", ""))
