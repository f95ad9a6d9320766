"""Addresses for pods: each pod on this agent has one that no other living pod has."""

from __future__ import annotations

import ipaddress


class Addresses:
    """Hands out the addresses of an IPv4 network one after the other, and passes over those in use."""

    def __init__(self, network: str) -> None:
        self._network = ipaddress.IPv4Network(network)
        self._first = int(self._network.network_address) + 1
        self._count = self._network.num_addresses - 2
        self._next = 0
        self._used: dict[str, None] = {}

    @property
    def free(self) -> int:
        return self._count - len(self._used)

    def take(self) -> str:
        if len(self._used) >= self._count:
            raise OverflowError(f"all {self._count} addresses of {self._network} are in use")
        while True:
            number = self._first + self._next
            self._next = (self._next + 1) % self._count
            address = f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            if address not in self._used:
                self._used[address] = None
                return address

    def adopt(self, address: str) -> None:
        """Notes an address that a pod already has."""
        self._used[address] = None

    def give_back(self, address: str) -> None:
        self._used.pop(address, None)
