"""Cluster state in process: the port `Objects` with the semantics of a real API server, and nothing underneath.

One thread owns a store; every verb runs to its end without awaiting, so each is atomic. Time and identifiers come in
through ports, so a simulation that seeds them gets the same history every time.
"""

from allhands.store.objects import InProcessObjects
from allhands.store.store import Store

__all__ = ["InProcessObjects", "Store"]
