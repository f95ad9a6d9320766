"""Which test shows what the table of compatibility with Volcano says, row by row.

A field without a test of its own is shown by that of what it is a part of. That every row has one, and that each of
them is there, is seen to by `tests/unit/api/volcano/test_compatibility.py`.
"""

from __future__ import annotations

from typing import Final

COMPAT: Final = "tests/compat/volcano"
GANGS, FLOWS, QUEUES = (
    f"{COMPAT}/test_volcano_gangs_run.py",
    f"{COMPAT}/test_volcano_flows_run.py",
    f"{COMPAT}/test_volcano_queues_run.py",
)
POLICIES, FRAMEWORKS = f"{COMPAT}/test_volcano_policies_run.py", f"{COMPAT}/test_volcano_frameworks_run.py"
REFUSALS = f"{COMPAT}/test_volcano_refusals.py::test_what_makes_no_sense_is_refused_with_its_path"
SCHEMAS = "tests/unit/api/volcano/test_volcano_schemas.py"
JOB_LIFE = "tests/unit/lifecycle/volcano_job/test_life.py"
JOB_POLICIES = "tests/unit/lifecycle/volcano_job/test_policies.py"
JOB_RULES = "tests/unit/api/volcano/test_job_rules.py"
FLOW_LIFE = "tests/unit/lifecycle/test_job_flow.py"
QUEUE_DIALECT = "tests/unit/dialects/test_queue_dialect.py"
QUEUE_TIMES = "tests/simulation/test_volcano_queues.py"
QUEUE_CONTROLLER = "tests/unit/controllers/test_queue_controller.py"
GROUPS = "tests/unit/dialects/test_foreign_groups.py"
HYPER_NODES = "tests/unit/dialects/test_hyper_nodes.py"
TOPOLOGY = "tests/unit/controllers/test_topology_controllers.py"
PLUGINS = "tests/unit/lifecycle/volcano_job/plugins"
CRON = "tests/unit/lifecycle/test_volcano_cron_job.py"
WORKLOADS = "tests/unit/controllers/test_workload_groups.py"
UNREAD = f"{GANGS}::notes_that_nobody_reads"

KINDS: Final = {
    "Job": f"{GANGS}::gang_with_ssh_env_and_svc",
    "CronJob": f"{FLOWS}::job_every_minute",
    "Command": f"{GANGS}::suspended_and_resumed",
    "PodGroup": f"{GANGS}::group_that_somebody_else_makes",
    "Queue": f"{QUEUES}::queues_below_a_queue",
    "JobFlow": f"{FLOWS}::flow_with_two_side_by_side",
    "JobTemplate": f"{FLOWS}::flow_with_two_side_by_side",
    "HyperNode": f"{GANGS}::parts_of_a_task",
    "Numatopology": f"{TOPOLOGY}::test_a_numatopology_is_kept_and_says_that_it_is_not_used",
}

_OF_JOBS: Final = {
    "spec.schedulerName": "tests/unit/api/volcano/test_job_defaults.py::test_the_scheduler_is_the_one_that_serves",
    "spec.minAvailable": f"{GANGS}::gang_with_ssh_env_and_svc",
    "spec.volumes": f"{GANGS}::claims_are_made_and_mounted",
    "spec.volumes[].volumeClaim": REFUSALS,
    "spec.tasks[].name": REFUSALS,
    "spec.tasks[].replicas": f"{GANGS}::elastic_job",
    "spec.tasks[].minAvailable": f"{GANGS}::elastic_job",
    "spec.tasks[].template": f"{JOB_LIFE}::test_pods_bear_the_names_labels_and_annotations_that_tools_look_for",
    "spec.tasks[].policies": f"{POLICIES}::a_task_goes_before_its_job",
    "spec.tasks[].policies[].action": REFUSALS,
    "spec.tasks[].policies[].exitCode": REFUSALS,
    "spec.tasks[].policies[].timeout": f"{JOB_POLICIES}::test_a_failure_is_answered_after_its_timeout",
    "spec.tasks[].topologyPolicy": REFUSALS,
    "spec.tasks[].maxRetry": f"{POLICIES}::when_a_task_has_failed",
    "spec.tasks[].dependsOn": f"{GANGS}::tasks_that_wait_for_tasks",
    "spec.tasks[].dependsOn.name": REFUSALS,
    "spec.tasks[].dependsOn.iteration": (
        "tests/unit/lifecycle/volcano_job/test_stages.py::test_one_of_several_is_enough_if_it_is_said_so"
    ),
    "spec.tasks[].partitionPolicy": f"{GANGS}::parts_of_a_task",
    "spec.tasks[].partitionPolicy.networkTopology.mode": f"{JOB_RULES}::test_a_job_that_makes_no_sense_is_refused",
    "spec.policies": f"{POLICIES}::abort_the_job",
    "spec.policies[].action": REFUSALS,
    "spec.policies[].event": f"{POLICIES}::terminate_the_job",
    "spec.policies[].events": f"{POLICIES}::complete_the_job",
    "spec.policies[].exitCode": f"{POLICIES}::restart_the_job_until_retries_are_used_up",
    "spec.policies[].timeout": f"{POLICIES}::when_a_pod_waits_for_too_long",
    "spec.plugins": f"{GANGS}::gang_with_ssh_env_and_svc",
    "spec.runningEstimate": f"{JOB_LIFE}::test_the_estimate_of_its_run_time_is_told_to_the_scheduler",
    "spec.queue": f"{QUEUES}::queue_that_is_closed_and_opened",
    "spec.maxRetry": f"{POLICIES}::restart_the_job_until_retries_are_used_up",
    "spec.ttlSecondsAfterFinished": f"{GANGS}::gone_when_its_time_is_over",
    "spec.priorityClassName": f"{JOB_RULES}::test_a_job_is_scaled_and_gets_another_priority",
    "spec.minSuccess": f"{GANGS}::ended_as_soon_as_enough_have_succeeded",
    "spec.networkTopology": f"{HYPER_NODES}::test_rules_of_volcano_groups_are_about_hyper_nodes_where_there_are_any",
    "spec.networkTopology.mode": REFUSALS,
    "status": f"{FLOWS}::steps_of_argo",
    "status.taskStatusCount": f"{GANGS}::gang_with_ssh_env_and_svc",
    "status.retryCount": f"{POLICIES}::restart_the_job_until_retries_are_used_up",
    "status.version": f"{GANGS}::restarted_and_terminated_by_commands",
    "status.runningDuration": f"{JOB_LIFE}::test_a_job_runs_to_its_end_and_leaves_what_has_ended",
    "status.controlledResources": f"{GANGS}::claims_are_made_and_mounted",
}
_OF_QUEUES: Final = {
    "spec": f"{QUEUE_DIALECT}::test_every_field_has_its_meaning",
    "spec.capability": f"{QUEUES}::queues_below_a_queue",
    "spec.parent": f"{QUEUES}::queues_below_a_queue",
    "spec.dequeueStrategy": (
        f"{QUEUE_TIMES}::test_the_dequeue_strategy_says_whether_a_job_that_fits_may_pass_one_that_does_not"
    ),
    "spec.affinity": (
        f"{QUEUE_TIMES}::test_pods_of_a_queue_go_only_to_the_node_groups_that_it_requires_and_are_told_why_they_wait"
    ),
    "spec.type": f"{QUEUE_DIALECT}::test_what_is_not_used_is_said",
    "spec.extendClusters": f"{QUEUE_DIALECT}::test_what_is_not_used_is_said",
    "status": f"{QUEUE_CONTROLLER}::test_a_gang_is_one_group_through_its_phases",
    "status.state": f"{QUEUES}::queue_that_is_closed_and_opened",
    "status.allocated": f"{QUEUES}::queues_below_a_queue",
    "status.conditions": f"{QUEUE_CONTROLLER}::test_what_is_wrong_with_a_queue_is_said_on_it_and_disturbs_nobody",
}
_OF_FLOWS: Final = {
    "spec.flows[].dependsOn.targets": f"{FLOWS}::flow_with_patches_probes_and_retries",
    "spec.flows[].dependsOn.probe": f"{FLOWS}::flow_with_patches_probes_and_retries",
    "spec.flows[].dependsOn.probe.httpGetList": (
        f"{FLOW_LIFE}::test_a_probe_over_http_is_asked_once_all_pods_run_and_the_answer_lets_the_step_begin"
    ),
    "spec.flows[].dependsOn.probe.tcpSocketList": (
        "tests/unit/runtime/test_probing.py::test_every_running_pod_of_the_task_must_take_connections"
    ),
    "spec.flows[].patch": f"{FLOWS}::flow_with_patches_probes_and_retries",
    "spec.jobRetainPolicy": f"{FLOWS}::flow_with_two_side_by_side",
    "status": f"{FLOW_LIFE}::test_every_job_is_in_the_list_of_its_phase",
    "status.jobStatusList": f"{FLOW_LIFE}::test_an_entry_tells_the_story_of_its_job",
    "status.state": f"{FLOWS}::flow_with_patches_probes_and_retries",
}
FIELDS: Final[dict[tuple[str, str], str]] = {
    **{("Job", path): test for path, test in _OF_JOBS.items()},
    **{("Queue", path): test for path, test in _OF_QUEUES.items()},
    **{("JobFlow", path): test for path, test in _OF_FLOWS.items()},
    ("CronJob", "spec.jobTemplate"): REFUSALS,
    ("CronJob", "spec.schedule"): REFUSALS,
    ("CronJob", "spec.timeZone"): REFUSALS,
    ("CronJob", "spec.concurrencyPolicy"): f"{CRON}::test_a_running_job_is_joined_kept_alone_or_replaced",
    ("CronJob", "spec.successfulJobsHistoryLimit"): (
        f"{CRON}::test_of_those_that_failed_or_were_terminated_so_many_are_kept"
    ),
    ("CronJob", "spec.failedJobsHistoryLimit"): (
        f"{CRON}::test_of_those_that_failed_or_were_terminated_so_many_are_kept"
    ),
    ("CronJob", "status"): f"{FLOWS}::job_every_minute",
    ("Command", "action"): f"{POLICIES}::a_command_that_jobs_do_not_know",
    ("JobTemplate", "spec"): f"{FLOWS}::flow_with_patches_probes_and_retries",
    ("PodGroup", "spec"): f"{GROUPS}::test_a_volcano_group_in_full",
    ("PodGroup", "spec.networkTopology"): (
        f"{HYPER_NODES}::test_rules_of_volcano_groups_are_about_hyper_nodes_where_there_are_any"
    ),
    ("PodGroup", "spec.networkTopology.mode"): (
        "tests/unit/api/volcano/test_other_rules.py::test_a_group_that_makes_no_sense_is_refused"
    ),
    ("PodGroup", "spec.subGroupPolicy"): f"{GROUPS}::test_sub_groups_have_a_size_a_number_and_a_place",
    ("PodGroup", "spec.subGroupPolicy[].networkTopology.mode"): (
        "tests/unit/api/volcano/test_other_rules.py::test_a_group_that_makes_no_sense_is_refused"
    ),
    ("PodGroup", "status"): f"{GROUPS}::test_phases_of_volcano",
    ("PodGroup", "status.conditions"): f"{GROUPS}::test_conditions_of_volcano_say_why_and_keep_those_of_others",
    ("HyperNode", "spec.members"): f"{HYPER_NODES}::test_members_are_found_by_name_by_pattern_and_by_labels",
    ("HyperNode", "spec.members[].selector"): REFUSALS,
    ("HyperNode", "status.conditions"): f"{TOPOLOGY}::test_a_ring_is_told_to_all_who_are_in_it",
    ("HyperNode", "status.nodeCount"): f"{GANGS}::parts_of_a_task",
}

ACTIONS: Final = {
    "AbortJob": f"{POLICIES}::abort_the_job",
    "TerminateJob": f"{POLICIES}::terminate_the_job",
    "CompleteJob": f"{POLICIES}::complete_the_job",
    "RestartJob": f"{POLICIES}::restart_the_job_until_retries_are_used_up",
    "RestartTask": f"{POLICIES}::restart_the_task",
    "RestartPod": f"{POLICIES}::restart_the_pod",
    "RestartPartition": f"{POLICIES}::restart_the_partition",
    "ResumeJob": f"{GANGS}::suspended_and_resumed",
    "OpenQueue": f"{QUEUES}::queue_that_is_closed_and_opened",
    "CloseQueue": f"{QUEUES}::queue_that_is_closed_and_opened",
    "SyncJob": REFUSALS,
    "EnqueueJob": REFUSALS,
    "SyncQueue": REFUSALS,
}
EVENTS: Final = {
    "*": f"{POLICIES}::when_anything_happens",
    "PodPending": f"{POLICIES}::when_a_pod_waits_for_too_long",
    "PodFailed": f"{POLICIES}::terminate_the_job",
    "PodEvicted": f"{POLICIES}::when_a_pod_is_evicted",
    "Unknown": f"{JOB_POLICIES}::test_every_event_can_end_the_job_in_every_way",
    "TaskCompleted": f"{POLICIES}::when_a_task_has_completed",
    "TaskFailed": f"{POLICIES}::when_a_task_has_failed",
    "JobUpdated": f"{JOB_POLICIES}::test_every_event_can_end_the_job_in_every_way",
    "PodRunning": REFUSALS,
    "OutOfSync": REFUSALS,
    "CommandIssued": REFUSALS,
}
JOB_PLUGINS: Final = {
    "env": f"{GANGS}::gang_with_ssh_env_and_svc",
    "svc": f"{GANGS}::gang_with_ssh_env_and_svc",
    "ssh": f"{GANGS}::gang_with_ssh_env_and_svc",
    "pytorch": f"{FRAMEWORKS}::pytorch_by_its_plugin",
    "tensorflow": f"{FRAMEWORKS}::tensorflow_by_its_plugin",
    "mpi": f"{FRAMEWORKS}::mpi_by_its_plugin",
    "ray": f"{FRAMEWORKS}::ray_by_its_plugin",
    "jax": f"{PLUGINS}/test_frameworks.py::test_jax_has_one_coordinator_and_every_process_is_there_once",
    "horovod": f"{PLUGINS}/test_frameworks.py::test_horovod_by_ssh_tells_the_master_what_horovodrun_takes",
    "hcclrank": f"{PLUGINS}/test_frameworks.py::test_hcclrank_numbers_masters_first_and_takes_a_rank_that_is_there",
}
_MARKS: Final = f"{JOB_LIFE}::test_pods_bear_the_names_labels_and_annotations_that_tools_look_for"
KEYS: Final = {
    "scheduling.k8s.io/group-name": f"{GANGS}::group_that_somebody_else_makes",
    "scheduling.volcano.sh/group-name": f"{GROUPS}::test_a_pod_names_its_group_in_the_way_of_its_kind",
    "scheduling.volcano.sh/queue-name": f"{QUEUES}::deployment_in_a_queue",
    "scheduling.volcano.sh/group-min-member": f"{QUEUES}::workloads_that_are_gangs_by_annotation",
    "volcano.sh/hierarchy": f"{QUEUES}::queues_by_annotation",
    "volcano.sh/hierarchy-weights": f"{QUEUE_TIMES}::test_queues_in_a_tree_by_annotations_share_level_by_level",
    "volcano.sh/closed-by-parent": (
        "tests/unit/lifecycle/test_queue_machine.py::test_a_queue_closes_with_the_one_above_it_and_that_is_noted_first"
    ),
    "volcano.sh/nodegroup-name": (
        f"{QUEUE_TIMES}::test_pods_of_a_queue_go_only_to_the_node_groups_that_it_requires_and_are_told_why_they_wait"
    ),
    "volcano.sh/preemptable": f"{GROUPS}::test_a_volcano_group_in_full",
    "volcano.sh/cooldown-time": f"{GROUPS}::test_a_volcano_group_may_be_left_alone_for_a_while",
    "volcano.sh/sla-waiting-time": f"{GROUPS}::test_a_volcano_group_may_say_how_long_it_should_wait_at_most",
    "sla-waiting-time": f"{GROUPS}::test_a_volcano_group_may_say_how_long_it_should_wait_at_most",
    "volcano.sh/task-priority": "tests/scenarios/test_gangs.py::test_members_with_a_higher_rank_come_first",
    "volcano.sh/jdb-min-available": f"{GROUPS}::test_a_volcano_group_may_limit_how_much_of_it_is_disturbed",
    "volcano.sh/jdb-max-unavailable": f"{GROUPS}::test_a_volcano_group_may_limit_how_much_of_it_is_disturbed",
    "volcano.sh/network-topology-mode": f"{WORKLOADS}::test_topology_of_pods_becomes_that_of_the_group",
    "volcano.sh/network-topology-highest-tier": f"{WORKLOADS}::test_topology_of_pods_becomes_that_of_the_group",
    "volcano.sh/job-name": _MARKS,
    "volcano.sh/job-namespace": _MARKS,
    "volcano.sh/job-version": _MARKS,
    "volcano.sh/job-retry-count": _MARKS,
    "volcano.sh/task-spec": _MARKS,
    "volcano.sh/task-index": _MARKS,
    "volcano.sh/queue-name": _MARKS,
    "volcano.sh/template-uid": f"{GANGS}::gang_with_ssh_env_and_svc",
    "volcano.sh/partition-id": f"{GANGS}::parts_of_a_task",
    "volcano.sh/controller-out-of-sync": f"{JOB_POLICIES}::test_a_scaled_down_pod_is_not_evicted",
    "volcano.sh/cronjob-scheduled-timestamp": f"{FLOWS}::job_every_minute",
    "volcano.sh/createdByJobTemplate": (
        f"{FLOW_LIFE}::test_steps_that_wait_for_nobody_begin_at_once_with_all_marks_of_volcano"
    ),
    "volcano.sh/createdByJobFlow": (
        f"{FLOW_LIFE}::test_steps_that_wait_for_nobody_begin_at_once_with_all_marks_of_volcano"
    ),
}


def of_field(kind: str, path: str) -> str:
    """That of the field, or of what it is a part of; templates of Jobs are like Jobs."""
    while True:
        if (kind, path) in FIELDS:
            return FIELDS[kind, path]
        if kind == "CronJob" and path.startswith("spec.jobTemplate.spec."):
            return of_field("Job", path.removeprefix("spec.jobTemplate."))
        if kind == "JobTemplate" and path.startswith("spec."):
            return of_field("Job", path)
        if not path:
            return KINDS[kind]
        path = path.removesuffix("[]") if path.endswith("[]") else path.rpartition(".")[0]


def of_key(key: str) -> str:
    return KEYS.get(key, UNREAD)
