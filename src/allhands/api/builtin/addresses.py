"""IP addresses and CIDR blocks as the API accepts them: what was always refused, and the ambiguous forms that new
objects may no longer use (leading zeros, IPv4 inside IPv6)."""

from __future__ import annotations

import functools
import ipaddress
import re

_LEADING_ZEROS = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
_NO_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_NO_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


@functools.lru_cache(maxsize=4096)
def _parse(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def ip_address(text: str) -> list[str]:
    address = _parse(text)
    if address is None:
        readable = "." in text and _parse(_LEADING_ZEROS.sub("", text)) is not None
        return ["must not have leading 0s"] if readable else [_NO_IP]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return ["must not be an IPv4-mapped IPv6 address"]
    return []


def cidr(text: str) -> list[str]:
    head, slash, length = text.partition("/")
    address = _parse(head)
    if not slash or not length.isascii() or not length.isdigit():
        return [_NO_CIDR]
    plain = address or ("." in head and _parse(_LEADING_ZEROS.sub("", head))) or None
    if plain is None or int(length) > plain.max_prefixlen:
        return [_NO_CIDR]
    if address is None or (len(length) > 1 and length[0] == "0"):
        return ["must not have leading 0s in IP or prefix length"]
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return ["must not have an IPv4-mapped IPv6 address"]
    if int(address) & ((1 << (address.max_prefixlen - int(length))) - 1):
        return ["must not have bits set beyond the prefix length"]
    return []


def is_dual_stack_pair(texts: list[str]) -> bool:
    """True if both families are present. Everything listed must be readable."""
    versions = {address.version for text in texts if (address := _parse(text.partition("/")[0])) is not None}
    return versions == {4, 6}
