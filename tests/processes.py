"""Child processes for tests: those of the benchmarks, by the names that tests know them by."""

from allhands.measure.processes import (
    POLL_SECONDS,
    Reaper,
    Service,
    ServiceEndedError,
    free_ports,
    keep_logs,
    port_is_free,
    wait_until,
)

__all__ = [
    "POLL_SECONDS",
    "Reaper",
    "Service",
    "ServiceEndedError",
    "free_ports",
    "keep_logs",
    "port_is_free",
    "wait_until",
]
