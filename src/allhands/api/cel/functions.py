"""The functions that Kubernetes adds to CEL: lists, regular expressions, sets, quantities, addresses, URLs.

Quantities, addresses and URLs are types of their own in a real server. Here they are strings with a mark in front that
nobody writes, so that two of them are equal when they mean the same and a plain string is not taken for one.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
import urllib.parse
from typing import TYPE_CHECKING, Any, Final

from allhands.api.schema.goregex import found_in
from allhands.model.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable

    from cel_expr_python import cel

_QUANTITY: Final = "\ue000quantity:"
_ADDRESS: Final = "\ue000ip:"
_NETWORK: Final = "\ue000cidr:"
_URL: Final = "\ue000url:"
_MAX_TEXT: Final = 64 * 1024
"""Longer texts are no quantities, addresses or URLs; nobody spends time on them."""


def _unmarked(mark: str, text: str, name: str) -> str:
    if not text.startswith(mark):
        raise ValueError(f"no such overload: {name}")
    return text[len(mark) :]


def _quantity(text: str) -> Quantity:
    return Quantity(int(_unmarked(_QUANTITY, text, "quantity")))


def _marked_quantity(value: Quantity) -> str:
    return f"{_QUANTITY}{value.nanos}"


def _read_quantity(text: str) -> str:
    try:
        return _marked_quantity(Quantity.parse(text[:_MAX_TEXT]))
    except ValueError:
        raise ValueError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    def can_read(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return can_read


def _plus(sign: int) -> Callable[[str, str | int], str]:
    def add(left: str, right: str | int) -> str:
        other = Quantity.of_units(right) if isinstance(right, int) else _quantity(right)
        return _marked_quantity(_quantity(left) + (other if sign > 0 else -other))

    return add


def _order(left: str, right: str) -> int:
    mine, other = _quantity(left), _quantity(right)
    return (mine > other) - (mine < other)


def _as_integer(text: str) -> int:
    value = _quantity(text)
    if not _is_whole(value):
        raise ValueError("cannot convert value to integer")
    return value.value()


def _is_whole(value: Quantity) -> bool:
    return Quantity.of_units(value.value()) == value and abs(value.value()) < 2**63


def _read_address(text: str) -> str:
    if "%" in text:
        raise ValueError(f'IP Address "{text}" with zone value is not allowed')
    try:
        address = ipaddress.ip_address(text[:_MAX_TEXT])
    except ValueError:
        raise ValueError(f'IP Address "{text}" parse error during conversion from string') from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return f"{_ADDRESS}{address}"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(_unmarked(_ADDRESS, text, "ip"))


def _read_network(text: str) -> str:
    try:
        network = ipaddress.ip_interface(text[:_MAX_TEXT] if "/" in text else "")
    except ValueError:
        raise ValueError(f'network address parse error during conversion from string: "{text}"') from None
    return f"{_NETWORK}{network}"


def _network(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    return ipaddress.ip_interface(_unmarked(_NETWORK, text, "cidr"))


def _holds_address(network: str, address: str) -> bool:
    marked = address if address.startswith(_ADDRESS) else _read_address(address)
    return _address(marked) in _network(network).network


def _holds_network(outer: str, inner: str) -> bool:
    mine = _network(outer).network
    other = _network(inner if inner.startswith(_NETWORK) else _read_network(inner)).network
    if mine.version != other.version:
        return False
    return mine.prefixlen <= other.prefixlen and other.network_address in mine


def _is_global_unicast(text: str) -> bool:
    address = _address(text)
    outside = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not outside and str(address) != "255.255.255.255"


def _is_local_multicast(text: str) -> bool:
    address = _address(text)
    if address.version == 4:
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.is_multicast and address.packed[1] & 0x0F == 2


def _read_url(text: str) -> str:
    if len(text) > _MAX_TEXT:
        raise ValueError("URL parse error during conversion from string: too long")
    try:
        parts = urllib.parse.urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"URL parse error during conversion from string: {error}") from None
    absolute_path = text.startswith("/")
    if not (parts.scheme or absolute_path) or any(char.isspace() or not char.isprintable() for char in text):
        raise ValueError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')
    del port  # only read to see whether it is a number
    return f"{_URL}{text}"


def _url(text: str) -> urllib.parse.SplitResult:
    return urllib.parse.urlsplit(_unmarked(_URL, text, "url"))


def _host(text: str) -> str:
    return _url(text).netloc.rpartition("@")[2]


def _hostname(text: str) -> str:
    host = _host(text)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(text: str) -> str:
    port = _url(text).port
    return "" if port is None else str(port)


def _escaped_path(text: str) -> str:
    return urllib.parse.quote(_url(text).path, safe="/%:@!$&'()*+,;=~")


def _query(text: str) -> dict[str, list[str]]:
    return urllib.parse.parse_qs(_url(text).query, keep_blank_values=True)


def _outermost(choose: Callable[[list[Any]], Any], name: str) -> Callable[[list[Any]], Any]:
    def chosen(items: list[Any]) -> Any:
        if not items:
            raise ValueError(f"{name} called on empty list")
        return choose(items)

    return chosen


def _are_equal_sets(mine: list[Any], other: list[Any]) -> bool:
    return all(it in mine for it in other) and all(it in other for it in mine)


_FUNCTIONS: Final[tuple[tuple[str, Callable[..., Any]], ...]] = (
    ("list.isSorted() bool", lambda it: all(a <= b for a, b in itertools.pairwise(it))),
    ("list.sum() dyn", lambda it: sum(it) if it else 0),
    ("list.min() dyn", _outermost(min, "min")),
    ("list.max() dyn", _outermost(max, "max")),
    ("sets.contains(list, list) bool", lambda mine, other: all(it in mine for it in other)),
    ("sets.intersects(list, list) bool", lambda mine, other: any(it in mine for it in other)),
    ("sets.equivalent(list, list) bool", _are_equal_sets),
    ("string.find(string) string", lambda text, pattern: next(iter(found_in(pattern, text, 1)), "")),
    ("string.findAll(string) list", lambda text, pattern: found_in(pattern, text)),
    ("string.findAll(string, int) list", lambda text, pattern, most: found_in(pattern, text, most)),
    ("quantity(string) string", _read_quantity),
    ("isQuantity(string) bool", _reads(_read_quantity)),
    ("string.sign() int", lambda value: _order(value, _marked_quantity(Quantity.of_units(0)))),
    ("string.isInteger() bool", lambda value: _is_whole(_quantity(value))),
    ("string.asInteger() int", _as_integer),
    ("string.asApproximateFloat() double", lambda value: _quantity(value).nanos / 1e9),
    ("string.isGreaterThan(string) bool", lambda left, right: _order(left, right) > 0),
    ("string.isLessThan(string) bool", lambda left, right: _order(left, right) < 0),
    ("string.compareTo(string) int", _order),
    ("string.add(string) string", _plus(1)),
    ("string.add(int) string", _plus(1)),
    ("string.sub(string) string", _plus(-1)),
    ("string.sub(int) string", _plus(-1)),
    ("ip(string) string", _read_address),
    ("isIP(string) bool", _reads(_read_address)),
    ("ip.isCanonical(string) bool", lambda text: _read_address(text) == f"{_ADDRESS}{text}"),
    ("string.family() int", lambda value: _address(value).version),
    ("string.isUnspecified() bool", lambda value: _address(value).is_unspecified),
    ("string.isLoopback() bool", lambda value: _address(value).is_loopback),
    ("string.isLinkLocalMulticast() bool", _is_local_multicast),
    ("string.isLinkLocalUnicast() bool", lambda value: _address(value).is_link_local),
    ("string.isGlobalUnicast() bool", _is_global_unicast),
    ("cidr(string) string", _read_network),
    ("isCIDR(string) bool", _reads(_read_network)),
    ("string.containsIP(string) bool", _holds_address),
    ("string.containsCIDR(string) bool", _holds_network),
    ("string.ip() string", lambda value: f"{_ADDRESS}{_network(value).ip}"),
    ("string.prefixLength() int", lambda value: _network(value).network.prefixlen),
    ("string.masked() string", lambda value: f"{_NETWORK}{_network(value).network}"),
    ("url(string) string", _read_url),
    ("isURL(string) bool", _reads(_read_url)),
    ("string.getScheme() string", lambda value: _url(value).scheme),
    ("string.getHost() string", _host),
    ("string.getHostname() string", _hostname),
    ("string.getPort() string", _port),
    ("string.getEscapedPath() string", _escaped_path),
    ("string.getQuery() map", _query),
)
"""As they are written in the documentation of Kubernetes; `list.sum()` is a function of a list."""

_SIGNATURE: Final = re.compile(r"(?:(?P<receiver>list|string)\.)?(?P<name>[\w.]+)\((?P<taken>.*)\) (?P<result>\w+)")


def kubernetes_functions() -> list[cel.FunctionDecl]:
    """What the environment of a rule knows beyond the language and its usual extensions."""
    from cel_expr_python import cel  # noqa: PLC0415 (a large library, and few meet a rule)

    declared: dict[str, list[cel.Overload]] = {}
    for written, does in _FUNCTIONS:
        parts = _SIGNATURE.fullmatch(written)
        assert parts is not None
        taken = [name for name in (parts["receiver"], *parts["taken"].split(", ")) if name]
        overload = cel.Overload(
            written,
            getattr(cel.Type, parts["result"].upper()),
            [getattr(cel.Type, name.upper()) for name in taken],
            is_member=parts["receiver"] is not None,
            impl=does,
        )
        declared.setdefault(parts["name"], []).append(overload)
    return [cel.FunctionDecl(name, overloads) for name, overloads in declared.items()]
