"""Schedulers side by side on one real API server: `allhands bench api` and `allhands bench kwok`.

Everything is a ratio within one run. What is measured comes from others: the API server's own audit log says when a pod
was bound and who asked how often, the kernel says what a process used.
"""
