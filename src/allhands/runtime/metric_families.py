"""Every metric by name: what it counts, its labels, its buckets. One list, from which docs/metrics.md is checked.

Where kube-scheduler, client-go or Volcano have a name for the same thing, it is theirs, so that boards and alerts go on
working; what nobody else has begins with `allhands_`. No label may name a pod or a group: there are too many.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec


class Sort(enum.StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(msgspec.Struct, frozen=True):
    """All series of one name."""

    name: str
    sort: Sort
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


def _doubling(first: float, count: int, factor: float = 2.0) -> tuple[float, ...]:
    return tuple(first * factor**step for step in range(count))


def _counter(name: str, help: str, *labels: str) -> Family:
    return Family(name, Sort.COUNTER, help, labels)


def _gauge(name: str, help: str, *labels: str) -> Family:
    return Family(name, Sort.GAUGE, help, labels)


def _histogram(name: str, help: str, buckets: tuple[float, ...], *labels: str) -> Family:
    return Family(name, Sort.HISTOGRAM, help, labels, buckets)


_ATTEMPT: Final = _doubling(0.001, 15)
_WORK: Final = _doubling(1e-8, 10, 10.0)
_WAIT: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 4 * 3_600.0, 24 * 3_600.0, 7 * 24 * 3_600.0)

SCHEDULER: Final = (
    _counter(
        "scheduler_schedule_attempts_total",
        "Pods that were tried: 'scheduled', 'unschedulable' (told why), or 'error' (refused when it came to binding).",
        "result",
        "profile",
    ),
    _histogram(
        "scheduler_scheduling_attempt_duration_seconds",
        "From the beginning of the cycle that decided it to the last bind of its group, for each pod.",
        _ATTEMPT,
        "result",
        "profile",
    ),
    _histogram("scheduler_scheduling_algorithm_duration_seconds", "What deciding took, for each cycle.", _ATTEMPT),
    _counter(
        "scheduler_podgroup_schedule_attempts_total",
        "Groups that were tried: 'scheduled', 'unschedulable' (told why), or 'error' (refused, or bound in part).",
        "result",
        "profile",
    ),
    _histogram(
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "From the beginning of the cycle that decided it to the last bind of a group.",
        _ATTEMPT,
        "result",
        "profile",
    ),
    _gauge(
        "scheduler_pending_pods",
        "Pods that wait: 'active' (about to be decided), 'backoff' (refused, tried again soon), 'unschedulable' (told "
        "why), 'gated' (held back by their owner).",
        "queue",
    ),
    _histogram(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "From a pod's creation to its bind, in whole seconds, by how often its group was tried to be bound.",
        _doubling(0.01, 20),
        "attempts",
    ),
    _histogram(
        "scheduler_pod_scheduling_attempts", "How often a pod's group was tried to be bound.", _doubling(1.0, 5)
    ),
    _histogram("scheduler_preemption_victims", "Pods that were evicted for one group at a time.", _doubling(1.0, 7)),
    _counter("scheduler_preemption_attempts_total", "How often pods were evicted to make room for a group."),
    _gauge("scheduler_cache_size", "What the scheduler knows: nodes, pods, and pods assumed to be bound.", "type"),
)
VOLCANO: Final = (
    _histogram(
        "volcano_e2e_scheduling_latency_milliseconds", "What one cycle took, in milliseconds.", _doubling(5.0, 15)
    ),
    _histogram(
        "volcano_e2e_job_scheduling_latency_milliseconds",
        "From a group's creation to its last bind, in milliseconds.",
        _doubling(32.0, 20),
    ),
    _gauge("volcano_unschedule_job_count", "Groups that wait and were told why."),
    _gauge("volcano_queue_pod_group_pending_count", "Groups that wait, by queue.", "queue_name"),
    _gauge("volcano_queue_pod_group_running_count", "Groups that hold room, by queue.", "queue_name"),
    _gauge("volcano_queue_allocated_milli_cpu", "CPU that groups hold, by queue.", "queue_name"),
    _gauge("volcano_queue_allocated_memory_bytes", "Memory that groups hold, by queue.", "queue_name"),
)
CONTROLLERS: Final = (
    _gauge("workqueue_depth", "Keys that wait to be looked at.", "name"),
    _counter("workqueue_adds_total", "Keys that were added.", "name"),
    _counter("workqueue_retries_total", "Keys that failed and are tried again.", "name"),
    _histogram("workqueue_queue_duration_seconds", "How long a key waited to be looked at.", _WORK, "name"),
    _histogram("workqueue_work_duration_seconds", "How long looking at a key took.", _WORK, "name"),
)
CLIENT: Final = (
    _counter(
        "rest_client_requests_total",
        "Requests to the API, by the code of the answer, the HTTP method and the host.",
        "code",
        "method",
        "host",
    ),
    _histogram(
        "rest_client_request_duration_seconds",
        "How long requests to the API took; a watch until it was open.",
        (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
        "verb",
        "host",
    ),
    _gauge("leader_election_master_status", "Whether this process leads: 1, or 0 while another does.", "name"),
)
OURS: Final = (
    _counter("allhands_cycles_total", "Cycles: 'telling' ones explain who waits, 'quick' ones do not.", "sort"),
    _histogram(
        "allhands_cycle_step_seconds",
        "What the steps of a cycle took: 'snapshot', 'decide', 'hand over'.",
        _ATTEMPT,
        "step",
    ),
    _gauge("allhands_nodes_overcommitted", "Nodes that hold more than they have: another scheduler was there too."),
    _gauge("allhands_groups_waiting", "Groups that wait, by reason.", "reason"),
    _counter("allhands_binds_total", "Binds: 'bound', or 'failed' when they were given up.", "result"),
    _counter("allhands_starts_refused_total", "Groups that no longer fitted, looked at once more before binding."),
    _counter("allhands_starts_partial_total", "Groups of which some binds failed; they are completed first."),
    _counter("allhands_evictions_total", "Pods that were evicted, by reason.", "reason"),
    _histogram(
        "allhands_expected_start_error_seconds",
        "How far a group's start was from the one it was last told, 'early' or 'late'.",
        _WAIT,
        "direction",
    ),
    _gauge("allhands_ledger_entries", "Of how many queues, users and namespaces past use is kept."),
    _counter("allhands_ledger_writes_total", "Writes of the history: 'written' or 'failed'.", "result"),
    _counter("allhands_cycles_failed_total", "Cycles that ended by a mistake of the program and were tried again."),
    _gauge("allhands_part_up", "Whether a part of this process runs: 1, or 0 while it does not.", "part"),
    _counter("allhands_part_failures_total", "How often a part ended by a mistake and was begun anew.", "part"),
    _counter("allhands_metrics_dropped_total", "Series that were not kept because a family had too many."),
    _counter("allhands_audit_events_lost_total", "Requests of an embedded cluster that are missing in its audit log."),
)
WEBHOOKS: Final = (
    _counter(
        "allhands_webhook_reviews_total",
        "Objects that were reviewed: 'allowed', 'refused', or 'failed' when there was no verdict; by webhook and kind.",
        "webhook",
        "kind",
        "result",
    ),
    _histogram(
        "allhands_webhook_review_seconds",
        "From the beginning of a review's turn to its verdict.",
        _doubling(0.0005, 15),
        "webhook",
    ),
    _gauge(
        "allhands_webhook_certificate_expiry_timestamp_seconds",
        "When the certificate that is served, or its authority, ends, in seconds since 1970.",
        "certificate",
    ),
)
PROCESS: Final = (
    _counter("process_cpu_seconds_total", "User and system time of this process."),
    _gauge("process_resident_memory_bytes", "Memory of this process that is in RAM."),
    _gauge("process_open_fds", "Files that this process has open."),
    _gauge("process_start_time_seconds", "When this process began, in seconds since 1970."),
)
FAMILIES: Final = (*SCHEDULER, *VOLCANO, *CONTROLLERS, *CLIENT, *OURS, *WEBHOOKS, *PROCESS)
