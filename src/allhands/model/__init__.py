"""Frozen values of the problem: quantities, nodes, pods, pod-groups, queues, domains, reasons.

This room knows only the standard library and msgspec. Nothing here reads a clock, a file or the network.
"""
