"""The addresses and node ports that services have, and which of them the next one gets.

What is taken is what stored services show, counted with every change of one: there is no second book that could be
wrong after a crash, a change that is undone, or a restore. What is only tried takes nothing.
"""

from __future__ import annotations

import hashlib
import ipaddress
from typing import TYPE_CHECKING, Final

import msgspec

from allhands.api.builtin.service_addresses import WITH_NODE_PORT
from allhands.api.builtin.service_allocation import allocate
from allhands.api.kinds import Resource
from allhands.store.number_pool import NumberPool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allhands.api.builtin.service_allocation import Offer
    from allhands.api.document import Manifest
    from allhands.store.record import Record

SERVICES: Final = Resource("", "v1", "services")
ADDRESSES: Final = ipaddress.IPv4Network("172.20.0.0/16")
"""Apart from the networks of simulated pods and nodes."""
FIRST_PORT: Final = 30000
LAST_PORT: Final = 32767
_ADDRESSES_BY_REQUEST: Final = 256
_PORTS_BY_REQUEST: Final = 86
_ADDRESS_TAKEN: Final = "provided IP is already allocated"
_PORT_TAKEN: Final = "provided port is already allocated"


class _Port(msgspec.Struct):
    node_port: int = msgspec.field(default=0, name="nodePort")


class _Spec(msgspec.Struct):
    type: str = ""
    addresses: list[str] = msgspec.field(default_factory=list, name="clusterIPs")
    ports: list[_Port] = []
    health_port: int = msgspec.field(default=0, name="healthCheckNodePort")


class _Service(msgspec.Struct):
    spec: _Spec


class ServiceNumbers:
    """What is taken, of one store."""

    def __init__(self) -> None:
        first, last = int(ADDRESSES.network_address) + 1, int(ADDRESSES.broadcast_address) - 1
        self.addresses = NumberPool(first, last, _ADDRESSES_BY_REQUEST)
        self.ports = NumberPool(FIRST_PORT, LAST_PORT, _PORTS_BY_REQUEST)

    def note(self, old: Record | None, new: Record | None) -> None:
        """A service came, changed or went."""
        addresses, ports = _held(old)
        new_addresses, new_ports = _held(new)
        for pool, before, after in ((self.addresses, addresses, new_addresses), (self.ports, ports, new_ports)):
            for number in before - after:
                pool.release(number)
            for number in after - before:
                pool.hold(number)

    def allocate(self, new: Manifest, old: Manifest | None, *, dry_run: bool) -> None:
        offer: Offer = _DryOffer(self.ports) if dry_run else _Offer(self, new["metadata"]["uid"])
        allocate(new, old, offer)


class _Offer:
    """What one write may take. Who is born with another uid gets other numbers."""

    def __init__(self, numbers: ServiceNumbers, uid: str) -> None:
        self._numbers = numbers
        self._draws = _draws(uid)
        self._given: set[int] = set()

    def address(self) -> str | None:
        number = self._numbers.addresses.free(next(self._draws))
        return None if number is None else str(ipaddress.IPv4Address(number))

    def refusal_of_address(self, address: str) -> str:
        number = _number_of(address)
        if number is None or number not in self._numbers.addresses:
            return "the provided network does not match the current range"
        return _ADDRESS_TAKEN if self._numbers.addresses.is_taken(number) else ""

    def port(self) -> int | None:
        draw = next(self._draws)
        for step in range(len(self._given) + 1):
            number = self._numbers.ports.free(draw + step)
            if number is None or number not in self._given:
                break
        else:
            return None
        if number is not None:
            self._given.add(number)
        return number

    def refusal_of_port(self, number: int) -> str:
        pool = self._numbers.ports
        if number not in pool:
            return f"provided port is not in the valid range. The range of valid ports is {pool.first}-{pool.last}"
        if pool.is_taken(number) or number in self._given:
            return _PORT_TAKEN
        self._given.add(number)
        return ""


class _DryOffer:
    """What a write that is only tried is shown. As with the real server: numbers that nobody can have."""

    def __init__(self, ports: NumberPool) -> None:
        self._ports = ports
        self._given: set[int] = set()

    def address(self) -> str | None:
        return str(ADDRESSES.network_address)

    def refusal_of_address(self, address: str) -> str:
        number = _number_of(address)
        if (
            number is not None
            and ADDRESSES.network_address < ipaddress.IPv4Address(number) < ADDRESSES.broadcast_address
        ):
            return ""
        return f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {ADDRESSES}"

    def port(self) -> int | None:
        number = max(self._given, default=LAST_PORT + 1) + 1
        self._given.add(number)
        return number

    def refusal_of_port(self, number: int) -> str:
        if self._ports.is_taken(number) or number in self._given:
            return _PORT_TAKEN
        self._given.add(number)
        return ""


def _draws(uid: str) -> Iterator[int]:
    """Numbers that look like chance and depend on nothing but the uid, which was chance."""
    turn = 0
    while True:
        yield int.from_bytes(hashlib.blake2b(f"{uid}/{turn}".encode(), digest_size=8).digest(), "big")
        turn += 1


def _held(record: Record | None) -> tuple[set[int], set[int]]:
    if record is None:
        return set(), set()
    spec = msgspec.json.decode(record.raw, type=_Service).spec
    numbers = (_number_of(text) for text in spec.addresses)
    ports = {spec.health_port, *(port.node_port for port in spec.ports)} - {0}
    # Of an ExternalName any port may be written down; it is not given to it.
    return {number for number in numbers if number is not None}, ports if spec.type in WITH_NODE_PORT else set()


def _number_of(address: str) -> int | None:
    try:
        return int(ipaddress.IPv4Address(address))
    except ValueError:
        return None
