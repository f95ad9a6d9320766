"""Benchmarks that are honest by construction: a figure is a ratio of two things measured in the same run.

Machines are shared and noisy, so rounds are interleaved, the median is shown with its spread, and every report names
the command that made it. Nothing here is imported by the product.
"""
