"""Which addresses and blocks the API takes, and what it says about the others."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.api.builtin.addresses import cidr, ip_address, is_dual_stack_pair

NO_IP = ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
NO_CIDR = ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("10.0.0.1", [], id="an IPv4 address"),
        pytest.param("fd00::1", [], id="an IPv6 address"),
        pytest.param("010.0.0.1", ["must not have leading 0s"], id="leading zeros"),
        pytest.param("::ffff:1.2.3.4", ["must not be an IPv4-mapped IPv6 address"], id="IPv4 inside IPv6"),
        pytest.param("fe80::1%eth0", NO_IP, id="a zone"),
        pytest.param("10.0.0.256", NO_IP, id="a number out of range"),
        pytest.param("10.0.0", NO_IP, id="a number missing"),
        pytest.param("", NO_IP, id="nothing"),
    ],
)
def test_an_address_may_be(text: str, expected: list[str]) -> None:
    assert ip_address(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("10.0.0.0/24", [], id="an IPv4 block"),
        pytest.param("fd00::/64", [], id="an IPv6 block"),
        pytest.param("10.0.0.1/24", ["must not have bits set beyond the prefix length"], id="bits too many"),
        pytest.param("10.0.0.0/024", ["must not have leading 0s in IP or prefix length"], id="zeros in the length"),
        pytest.param("010.0.0.0/24", ["must not have leading 0s in IP or prefix length"], id="zeros in the address"),
        pytest.param("::ffff:10.0.0.0/120", ["must not have an IPv4-mapped IPv6 address"], id="IPv4 inside IPv6"),
        pytest.param("10.0.0.0/33", NO_CIDR, id="a length out of range"),
        pytest.param("10.0.0.0", NO_CIDR, id="no length"),
        pytest.param("10.0.0.0/-1", NO_CIDR, id="a negative length"),
        pytest.param("10.0.0.0/٣", NO_CIDR, id="digits of another script"),
        pytest.param("a/24", NO_CIDR, id="no address"),
    ],
)
def test_a_block_may_be(text: str, expected: list[str]) -> None:
    assert cidr(text) == expected


@given(st.ip_addresses())
def test_every_address_as_python_writes_it_passes(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    assert bool(ip_address(str(address))) == mapped
    assert bool(cidr(f"{address}/{address.max_prefixlen}")) == mapped


@given(st.text(max_size=40))
def test_no_text_is_too_strange_to_be_refused(text: str) -> None:
    assert isinstance(ip_address(text), list)
    assert isinstance(cidr(text), list)


def test_a_pair_has_both_families() -> None:
    assert is_dual_stack_pair(["10.0.0.1", "fd00::1"])
    assert not is_dual_stack_pair(["10.0.0.1", "10.0.0.2"])
