"""The life of a Volcano Job, look by look: its group, its pods, its counts, its ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allhands.lifecycle.volcano_job import Equipment
from allhands.lifecycle.volcano_job.extension import Companion
from allhands.lifecycle.volcano_job.names import GROUP_NAME, JOB_VERSION, PARTITION, QUEUE_NAME, TASK, TASK_INDEX
from allhands.lifecycle.volcano_job.reconcile import FIRST_WORD_SECONDS
from allhands.lifecycle.volcano_job.retries import FLOW_SECONDS
from tests.manifests import CONFIG_MAPS
from tests.volcano_job_world import VolcanoJobWorld, text_of
from tests.volcano_jobs import policy, task

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError
    from allhands.api.volcano.job import TaskSpec
    from allhands.lifecycle.volcano_job import JobDocument
    from allhands.lifecycle.volcano_job.extension import KeyPair


def test_no_pod_is_made_before_the_group_is_let_in() -> None:
    world = VolcanoJobWorld(task("worker", 3), opens=False)
    world.settle()
    world.advance(FIRST_WORD_SECONDS)
    assert world.phase == "Pending"
    assert world.group is not None
    assert world.group["metadata"]["name"] == "train-job-uid"
    assert world.group["spec"]["minMember"] == 3
    assert world.group["spec"]["minResources"] == {"cpu": "3"}
    assert not world.pods
    world.open()
    world.settle()
    assert world.names() == ["train-worker-0", "train-worker-1", "train-worker-2"]


def test_a_group_says_what_its_pods_may_use_at_most_for_quotas() -> None:
    workers = task("worker", 3)
    workers["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "500m", "memory": "1Gi"}}
    world = VolcanoJobWorld(workers, task("other", 1), opens=False)
    world.settle()
    assert world.group is not None
    assert world.group["spec"]["minResources"] == {
        "cpu": "2500m",
        "memory": "3Gi",
        "limits.cpu": "1500m",
        "limits.memory": "3Gi",
    }


def test_a_job_runs_to_its_end_and_leaves_what_has_ended() -> None:
    world = VolcanoJobWorld(task("worker", 2), task("master", 1))
    world.settle()
    assert world.status["pending"] == 3
    world.run()
    world.settle()
    assert world.phase == "Running"
    assert world.status["taskStatusCount"] == {
        "master": {"phase": {"Running": 1}},
        "worker": {"phase": {"Running": 2}},
    }
    world.advance(100)
    world.succeed()
    world.settle()
    assert world.phases == ["Pending", "Running", "Completed"]
    assert world.status["succeeded"] == 3
    assert world.status["runningDuration"] == "1m40s"
    assert [it["status"] for it in world.status["conditions"]] == ["Pending", "Running", "Completed"]
    assert world.group is None
    assert len(world.pods) == 3
    del world.pods["train-master-0"]
    world.settle()
    assert world.status["succeeded"] == 3, "what ended stays counted when somebody tidies up"
    assert len(world.pods) == 2


def test_pods_bear_the_names_labels_and_annotations_that_tools_look_for() -> None:
    parts = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}
    world = VolcanoJobWorld(task("w", 4, partitionPolicy=parts), queue="research", annotations={"volcano.sh/x": "y"})
    world.settle()
    pod = world.pods["train-w-3"]["metadata"]
    assert pod["labels"][TASK] == "w"
    assert pod["labels"][TASK_INDEX] == pod["annotations"][TASK_INDEX] == "3"
    assert pod["labels"][PARTITION] == "1"
    assert pod["labels"][QUEUE_NAME] == "research"
    assert pod["annotations"][GROUP_NAME] == "train-job-uid"
    assert pod["annotations"][JOB_VERSION] == "0"
    assert pod["ownerReferences"][0]["uid"] == "job-uid"
    assert world.group is not None
    assert world.group["spec"]["subGroupPolicy"] == [
        {
            "name": "w",
            "labelSelector": {"matchLabels": {TASK: "w"}},
            "matchLabelKeys": [PARTITION],
            "subGroupSize": 2,
            "minSubGroups": 1,
        }
    ]
    assert world.group["spec"]["minTaskMember"] == {"w": 2}


def test_it_is_complete_as_soon_as_enough_have_succeeded() -> None:
    world = VolcanoJobWorld(task("worker", 4), minSuccess=2)
    world.settle()
    world.run()
    world.settle()
    world.succeed("train-worker-0", "train-worker-3")
    world.settle()
    assert world.phase == "Completed"
    world.end_going()
    world.settle()
    assert sorted(world.pods) == ["train-worker-0", "train-worker-3"]
    assert world.status.get("running", 0) == 0


@pytest.mark.parametrize(
    ("spec", "minimum", "failures", "end"),
    [
        ({}, {}, 1, "Failed"),
        ({"minAvailable": 2}, {}, 1, "Completed"),
        ({"minAvailable": 2}, {}, 2, "Failed"),
        ({"minAvailable": 3}, {"minAvailable": 3}, 1, "Failed"),
        ({"minSuccess": 3, "minAvailable": 1}, {}, 1, "Failed"),
    ],
)
def test_how_it_ends_when_some_have_failed(
    spec: dict[str, Any], minimum: dict[str, Any], failures: int, end: str
) -> None:
    world = VolcanoJobWorld(task("worker", 3, **minimum), **spec)
    world.settle()
    world.run()
    world.fail(*world.names()[:failures])
    world.succeed()
    world.settle()
    assert world.phase == end
    assert world.status["failed"] == failures


def test_a_job_that_loses_its_minimum_is_pending_again() -> None:
    world = VolcanoJobWorld(task("worker", 3))
    world.settle()
    world.run()
    world.settle()
    world.vanish("train-worker-1")
    world.settle()
    assert world.phase == "Pending"
    assert len(world.names()) == 3
    world.run()
    world.settle()
    assert world.phase == "Running"


def test_it_is_scaled_up_and_down_while_it_runs() -> None:
    world = VolcanoJobWorld(task("worker", 2, minAvailable=1), minAvailable=1)
    world.settle()
    world.run()
    world.settle()
    world.scale("worker", 5)
    world.settle()
    assert len(world.names()) == 5
    assert world.phase == "Running"
    world.run()
    world.scale("worker", 1)
    world.settle()
    world.end_going()
    world.settle()
    assert world.names() == ["train-worker-0"]
    assert world.status["running"] == 1
    assert world.status.get("terminating", 0) == 0
    assert world.status.get("retryCount", 0) == 0


def test_a_group_that_is_deleted_by_hand_is_made_again() -> None:
    world = VolcanoJobWorld(task("worker", 2))
    world.settle()
    world.run()
    world.settle()
    world.lose_group()
    world.settle()
    assert world.group is not None
    assert world.phase == "Running"
    assert len(world.pods) == 2


def test_a_job_that_is_deleted_is_left_alone() -> None:
    world = VolcanoJobWorld(task("worker", 2))
    world.settle()
    assert world.job is not None
    world.job["metadata"]["deletionTimestamp"] = world.job["metadata"]["creationTimestamp"]
    world.vanish("train-worker-0")
    assert world.look().instructions == ()


def test_it_goes_when_its_time_to_live_has_passed() -> None:
    world = VolcanoJobWorld(task("worker", 1), ttlSecondsAfterFinished=60)
    world.settle()
    world.succeed()
    world.settle()
    assert world.phase == "Completed"
    assert world.look().wake_at_seconds == world.now_seconds + 60
    world.advance(59)
    assert world.job is not None
    world.advance(1)
    assert world.job is None


def test_why_it_waits_is_said_on_the_job_itself() -> None:
    world = VolcanoJobWorld(task("worker", 2), opens=False)
    world.settle()
    assert world.group is not None
    why = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
        "message": "2 of 3 nodes are full",
    }
    world.group["status"] = {"phase": "Pending", "conditions": [why]}
    world.settle()
    assert (world.reason, world.message) == ("NotEnoughResources", "2 of 3 nodes are full")
    world.group["status"] = {"phase": "Inqueue", "conditions": [{**why, "status": "False"}]}
    world.settle()
    assert (world.reason, world.message) == ("", "")


def test_a_template_that_is_refused_is_told_and_tried_again_with_one_pod() -> None:
    world = VolcanoJobWorld(task("worker", 5), opens=False)
    world.settle()
    world.open()
    world.refusing = "containers must have a name"
    world.look()
    outcome = world.look()
    assert world.phase == "Pending"
    assert world.message == "containers must have a name"
    assert world.reason == "FailedCreate"
    assert sum(type(it).__name__ == "Create" for it in outcome.instructions) == 1
    assert "FailedCreate" in world.reasons()
    world.refusing = ""
    world.settle()
    assert len(world.pods) == 5
    assert world.message == ""


def test_a_big_job_is_made_in_portions_without_a_pause() -> None:
    world = VolcanoJobWorld(task("worker", 1200))
    outcome = world.look()
    world.open()
    looks = 0
    while len(world.pods) < 1200:
        outcome = world.look()
        looks += 1
        assert outcome.wake_at_seconds == world.now_seconds or len(world.pods) == 1200
    assert looks == 3
    world.settle()
    assert world.status_writes <= 5


def test_what_happens_at_once_is_told_at_once() -> None:
    """That it is there, has pods, and that they run: one word for each thing that lasts."""
    world = VolcanoJobWorld(task("worker", 20))
    world.look()
    world.open()
    world.look()
    assert len(world.pods) == 20
    assert world.status_writes == 0
    world.run()
    world.settle()
    assert world.status_writes == 1
    assert [it["status"] for it in world.status["conditions"]] == ["Pending", "Running"]
    world.advance(100)
    world.succeed()
    world.settle()
    assert world.phase == "Completed"
    assert world.status_writes == 2


def test_a_job_that_has_only_to_wait_is_told_so_in_time_and_in_no_hurry() -> None:
    world = VolcanoJobWorld(task("worker", 3), opens=False)
    outcome = world.look()
    made = world.now_seconds
    assert [type(it).__name__ for it in outcome.instructions] == ["Create"]
    assert (outcome.wake_at_seconds, outcome.is_hurried) == (made + FIRST_WORD_SECONDS, False)
    world.advance(FIRST_WORD_SECONDS)
    assert world.phase == "Pending"
    assert world.status["conditions"] == [{"status": "Pending", "lastTransitionTime": text_of(made)}]
    assert world.look().wake_at_seconds is None
    assert world.status_writes == 1


def test_a_job_that_is_first_looked_at_late_is_not_told_of_before_it_could_have_pods() -> None:
    world = VolcanoJobWorld(task("worker", 3), opens=False)
    world.now_seconds += 60
    assert [type(it).__name__ for it in world.look().instructions] == ["Create"]
    world.now_seconds += 60
    world.open()
    world.look()
    assert len(world.pods) == 3
    world.run()
    world.settle()
    assert (world.phases, world.status_writes) == (["Running"], 1)


def test_why_a_new_job_waits_is_told_at_once() -> None:
    world = VolcanoJobWorld(task("worker", 3), opens=False)
    world.settle()
    assert world.group is not None
    reason = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "There is no room."}
    world.group["status"] = {"phase": "Pending", "conditions": [reason]}
    world.settle()
    assert (world.phase, world.message) == ("Pending", "There is no room.")


def test_a_job_from_the_future_is_told_of_at_once() -> None:
    """Where clocks differ nobody waits until they agree."""
    world = VolcanoJobWorld(task("worker", 1), opens=False)
    world.look()
    world.now_seconds -= 60
    world.settle()
    assert world.phase == "Pending"


def test_nothing_is_written_when_nothing_has_changed() -> None:
    world = VolcanoJobWorld(task("worker", 3), policies=[policy("RestartJob", "PodFailed", "PodEvicted")])
    world.settle()
    world.run()
    world.settle()
    before = world.status_writes
    world.settle()
    assert world.look().instructions == ()
    assert world.status_writes == before


def test_the_estimate_of_its_run_time_is_told_to_the_scheduler() -> None:
    world = VolcanoJobWorld(task("worker", 1), runningEstimate="1h30m", priorityClassName="high")
    world.settle()
    assert world.group is not None
    assert world.group["metadata"]["annotations"]["allhands.dev/expected-duration"] == "5400s"
    assert world.group["spec"]["priorityClassName"] == "high"
    assert world.pods["train-worker-0"]["spec"]["priorityClassName"] == "high"


def test_volumes_are_claimed_once_and_mounted_everywhere() -> None:
    volumes = [
        {"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteMany"]}},
        {"mountPath": "/models", "volumeClaimName": "models"},
    ]
    world = VolcanoJobWorld(task("worker", 2), volumes=volumes)
    world.settle()
    ((plural, name), claim) = next(iter(world.others.items()))
    assert plural == "persistentvolumeclaims"
    assert claim["metadata"]["ownerReferences"][0]["uid"] == "job-uid"
    assert len(world.others) == 1
    assert world.status["controlledResources"] == {f"volume-pvc-{name}": name, "volume-pvc-models": "models"}
    spec = world.pods["train-worker-1"]["spec"]
    assert [it["persistentVolumeClaim"]["claimName"] for it in spec["volumes"]] == [name, "models"]
    assert [it["mountPath"] for it in spec["containers"][0]["volumeMounts"]] == ["/data", "/models"]
    world.others.clear()
    world.vanish("train-worker-0")
    world.settle()
    assert not world.others, "what its owner has deleted is not made again"


class Neighbours:
    """A plugin that needs a list of all pods beside them."""

    def problems(self, job: JobDocument, path: str) -> list[FieldError]:
        del job, path
        return []

    def companions(self, job: JobDocument, new_keys: Callable[[], KeyPair]) -> tuple[Companion, ...]:
        del new_keys
        count = sum(it.replicas for it in job.spec.tasks or ())
        manifest = {"metadata": {"name": "list"}, "data": {"count": str(count)}}
        return (Companion(CONFIG_MAPS, manifest, keeps_up=True),)

    def equip(self, job: JobDocument, task: TaskSpec, index: int, pod: Manifest) -> None:
        del job, task
        pod["spec"]["containers"][0]["env"] = [{"name": "INDEX", "value": str(index)}]


def test_what_plugins_need_is_there_before_the_first_pod_and_follows_when_it_is_scaled() -> None:
    world = VolcanoJobWorld(
        task("worker", 2, minAvailable=1),
        minAvailable=1,
        opens=False,
        equipment=Equipment((Neighbours(),)),
        plugins={"list": []},
    )
    world.settle()
    world.scale("worker", 3)
    world.settle()
    assert not world.others, "nothing is made while it waits"
    world.open()
    world.look()
    assert world.others[("configmaps", "list")]["data"] == {"count": "3"}
    assert not world.pods
    assert world.status["controlledResources"] == {"plugin-list": "list"}
    world.settle()
    assert [it["spec"]["containers"][0]["env"][0]["value"] for it in world.pods.values()] == ["0", "1", "2"]
    world.scale("worker", 4)
    world.settle()
    assert world.others[("configmaps", "list")]["data"] == {"count": "4"}
    assert len(world.pods) == 4


def _with_list() -> VolcanoJobWorld:
    world = VolcanoJobWorld(task("worker", 2), equipment=Equipment((Neighbours(),)), plugins={"list": []})
    world.settle()
    world.run()
    world.settle()
    return world


def test_what_plugins_made_goes_when_the_last_pod_has_ended() -> None:
    world = _with_list()
    world.order("TerminateJob")
    world.settle()
    assert world.others, "pods that are going may still need it"
    world.end_going()
    world.settle()
    assert world.phase == "Terminated"
    assert not world.others
    assert not world.status.get("controlledResources")


@pytest.mark.parametrize("cut", range(12))
def test_a_job_that_is_aborted_and_resumed_gets_again_what_its_plugins_need(cut: int) -> None:
    world = _with_list()
    world.order("AbortJob")
    world.settle()
    world.end_going()
    for limit in (cut % 4, cut // 4):
        world.look(limit)
    world.settle()
    assert world.phase == "Aborted"
    assert not world.others
    world.order("ResumeJob")
    world.settle()
    assert world.others[("configmaps", "list")]["data"] == {"count": "2"}
    assert world.status["controlledResources"] == {"plugin-list": "list"}
    assert len(world.names("Pending")) == 2


def test_what_plugins_made_stays_when_a_job_is_restarted() -> None:
    world = _with_list()
    world.order("RestartJob")
    world.settle()
    assert world.others
    world.end_going()
    world.settle()
    assert world.others


def test_claims_stay_after_the_end() -> None:
    volumes = [{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteMany"]}}]
    world = VolcanoJobWorld(task("worker", 1), volumes=volumes)
    world.settle()
    world.run()
    world.succeed()
    world.settle()
    assert world.phase == "Completed"
    assert len(world.others) == 1


@pytest.mark.parametrize("cut", range(6))
def test_a_job_that_is_over_lives_as_long_as_it_may_whenever_the_controller_was_stopped(cut: int) -> None:
    world = VolcanoJobWorld(
        task("worker", 1), equipment=Equipment((Neighbours(),)), plugins={"list": []}, ttlSecondsAfterFinished=60
    )
    world.settle()
    world.run()
    world.settle()
    world.succeed()
    world.look(cut)
    world.settle()
    world.advance(59)
    assert world.job is not None
    assert not world.others
    world.advance(1)
    assert world.job is None


def test_the_job_of_a_flow_stays_until_the_flow_has_seen_its_end() -> None:
    world = VolcanoJobWorld(task("worker", 1), ttlSecondsAfterFinished=0)
    assert world.job is not None
    owner = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "name": "f", "uid": "f", "controller": True}
    world.job["metadata"]["ownerReferences"] = [owner]
    world.settle()
    world.run()
    world.settle()
    world.succeed()
    world.settle()
    assert world.job is not None
    world.advance(FLOW_SECONDS)
    assert world.job is None


def test_what_a_job_says_later_is_handed_on_to_its_group() -> None:
    world = VolcanoJobWorld(task("worker", 1), runningEstimate="1h")
    world.settle()
    assert world.group is not None
    world.group["metadata"]["annotations"]["somebody/else"] = "theirs"
    world.annotate(**{"volcano.sh/preemptable": "true", "kubectl.kubernetes.io/last-applied-configuration": "{}"})
    world.label(team="a")
    world.settle()
    metadata = world.group["metadata"]
    assert metadata["annotations"]["volcano.sh/preemptable"] == "true"
    assert metadata["annotations"]["allhands.dev/expected-duration"] == "3600s"
    assert metadata["annotations"]["somebody/else"] == "theirs"
    assert "kubectl.kubernetes.io/last-applied-configuration" not in metadata["annotations"]
    assert metadata["labels"]["team"] == "a"
    world.annotate(**{"allhands.dev/expected-duration": "10m", "volcano.sh/preemptable": None})
    world.settle()
    assert metadata["annotations"] is not world.group["metadata"]["annotations"]
    annotations = world.group["metadata"]["annotations"]
    assert annotations["allhands.dev/expected-duration"] == "10m"
    assert annotations["volcano.sh/preemptable"] == "true", "one that is taken away may be somebody else's by now"
    assert world.look().instructions == ()
