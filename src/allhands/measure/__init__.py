"""Benchmarks that users can run on their own machine: the cases, how one is measured, and recordings of such clusters.

Only the command line imports this room. Every case runs in a process of its own, so that its memory is its own.
"""
