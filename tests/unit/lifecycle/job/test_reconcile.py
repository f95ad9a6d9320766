"""What becomes of a Job: scenarios on the toy cluster, each a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allhands.lifecycle.instructions import Create, Delete, Patch
from allhands.lifecycle.job import JOBS, PODS, reconcile
from allhands.lifecycle.job.pod import FINALIZER, INDEX, INDEX_FAILURES, INDEX_IGNORED
from tests.job_world import NAMESPACE, JobWorld, created

if TYPE_CHECKING:
    from allhands.api.document import Manifest


def test_a_job_runs_to_its_end() -> None:
    world = JobWorld(completions=3, parallelism=2)
    world.settle()
    assert world.status["active"] == 2
    assert world.status["ready"] == 0
    assert "startTime" in world.status
    world.run(*world.names())
    world.settle()
    assert world.status["ready"] == 2
    world.succeed(*world.names())
    world.settle()
    assert world.status["succeeded"] == 2
    assert world.status["active"] == 1
    world.succeed(*world.names())
    world.settle()
    assert world.conditions == ["SuccessCriteriaMet", "Complete"]
    assert world.status["succeeded"] == 3
    assert world.status["completionTime"] == world.status["startTime"]
    assert world.status["uncountedTerminatedPods"] == {}
    assert "active" not in world.status
    assert world.reasons().count("Completed") == 1
    assert not any(FINALIZER in pod["metadata"].get("finalizers", ()) for pod in world.pods.values())


def test_it_takes_few_writes() -> None:
    world = JobWorld(completions=10, parallelism=10)
    outcomes = [world.look(), world.look()]
    assert [len(created(it.instructions)) for it in outcomes] == [10, 0]
    assert not outcomes[1].instructions, "the first status says what comes of it"
    world.succeed(*world.names())
    before = world.writes
    world.settle()
    assert world.is_over
    assert world.writes - before == 1 + 10 + 1 + 1  # to be counted, finalizers, counted and complete, the event


def test_a_pod_that_ended_is_written_down_and_then_loses_its_finalizer_in_one_look() -> None:
    world = JobWorld(completions=3, parallelism=2)
    world.settle()
    ended = world.names()[0]
    world.succeed(ended)
    outcome = world.look()
    status, finalizer = (it for it in outcome.instructions if isinstance(it, Patch))
    assert (status.resource, status.version != "") == (JOBS, True)
    assert status.patch["status"]["uncountedTerminatedPods"] == {"succeeded": [world.pods[ended]["metadata"]["uid"]]}
    assert (finalizer.resource, finalizer.name) == (PODS, ended)
    assert outcome.wake_at_seconds == world.now_seconds
    assert world.look().instructions[0].patch["status"]["succeeded"] == 1  # type: ignore[union-attr]


def test_a_pod_is_as_the_template_says_and_knows_its_job() -> None:
    template = {
        "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]},
    }
    world = JobWorld(template=template)
    world.settle()
    (pod,) = world.pods.values()
    metadata = pod["metadata"]
    assert metadata["labels"]["app"] == "x"
    assert metadata["labels"]["batch.kubernetes.io/job-name"] == "train"
    assert metadata["labels"]["batch.kubernetes.io/controller-uid"] == "job-uid"
    assert metadata["labels"]["job-name"] == "train"
    assert metadata["annotations"] == {"note": "y"}
    assert metadata["finalizers"] == [FINALIZER]
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "train",
            "uid": "job-uid",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert metadata["generateName"] == "train-"
    assert metadata["name"].startswith("train-")
    assert len(metadata["name"]) == len("train-") + 5


def test_an_indexed_pod_knows_its_index_in_every_way() -> None:
    world = JobWorld(completions=3, parallelism=3, completionMode="Indexed")
    world.settle()
    by_index = {world.index_of(name): name for name in world.names()}
    assert sorted(by_index) == [0, 1, 2]
    pod = world.pods[by_index[1]]
    assert by_index[1].startswith("train-1-")
    assert pod["metadata"]["labels"][INDEX] == "1"
    assert pod["spec"]["hostname"] == "train-1"
    (variable,) = pod["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"


def test_a_container_that_has_the_variable_already_keeps_it() -> None:
    own = {"name": "JOB_COMPLETION_INDEX", "value": "mine"}
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "work", "env": [own]}]}
    world = JobWorld(template={"spec": spec}, completions=1, completionMode="Indexed")
    world.settle()
    (pod,) = world.pods.values()
    assert pod["spec"]["containers"][0]["env"] == [own]


def test_indexes_are_done_once_each_and_written_as_intervals() -> None:
    world = JobWorld(completions=5, parallelism=5, completionMode="Indexed")
    world.settle()
    world.succeed(world.by_index(0), world.by_index(1), world.by_index(2), world.by_index(4))
    world.settle()
    assert world.status["completedIndexes"] == "0-2,4"
    assert world.status["succeeded"] == 4
    world.succeed(world.by_index(3))
    world.settle()
    assert world.status["completedIndexes"] == "0-4"
    assert world.conditions == ["SuccessCriteriaMet", "Complete"]


def test_the_lowest_free_indexes_come_first() -> None:
    world = JobWorld(completions=10, parallelism=2, completionMode="Indexed")
    world.settle()
    world.succeed(world.by_index(1))
    world.settle()
    assert sorted(map(world.index_of, world.names())) == [0, 2]


def test_of_a_work_queue_the_first_success_ends_the_supply() -> None:
    world = JobWorld(parallelism=3)
    world.settle()
    first, *others = world.names()
    world.succeed(first)
    world.settle()
    assert sorted(world.names()) == sorted(others)
    assert not world.is_over
    world.fail(others[0])
    world.succeed(others[1])
    world.settle()
    assert world.conditions == ["SuccessCriteriaMet", "Complete"]
    assert (world.status["succeeded"], world.status["failed"]) == (2, 1)


def test_zero_completions_are_reached_at_once() -> None:
    world = JobWorld(completions=0, parallelism=3)
    world.settle()
    assert world.conditions == ["SuccessCriteriaMet", "Complete"]
    assert not world.pods


def test_a_failed_pod_is_replaced_after_a_pause_that_doubles() -> None:
    world = JobWorld(backoffLimit=6)
    world.settle()
    for pause in (10, 20, 40, 80, 160, 320):
        world.fail(*world.names())
        wake = world.settle().wake_at_seconds
        assert wake == world.now_seconds + pause
        world.advance(pause - 1)
        assert not world.names(), f"too early after {pause - 1} s"
        world.advance(1)
        assert len(world.names()) == 1
    world.fail(*world.names())
    world.settle()
    assert world.conditions == ["FailureTarget", "Failed"]
    assert world.status["failed"] == 7
    assert world.status["conditions"][1]["reason"] == "BackoffLimitExceeded"


def test_a_success_ends_the_pause() -> None:
    world = JobWorld(completions=5, parallelism=2)
    world.settle()
    first, second = world.names()
    world.fail(first)
    world.settle()
    assert len(world.names()) == 1
    world.now_seconds += 1
    world.succeed(second)
    world.settle()
    assert len(world.names()) == 2


def test_when_a_job_fails_its_pods_go_and_count_as_failed() -> None:
    world = JobWorld(completions=4, parallelism=4, backoffLimit=0)
    world.settle()
    world.run(*world.names())
    failed, *others = world.names()
    world.fail(failed)
    world.settle()
    assert world.conditions == ["FailureTarget"]
    assert world.status["terminating"] == 3
    assert sorted(world.names(going=True)) == sorted(others)
    for name in others:
        world.terminate(name)
    world.settle()
    assert world.conditions == ["FailureTarget", "Failed"]
    assert world.status["failed"] == 4
    assert world.status["terminating"] == 0
    assert "completionTime" not in world.status


def test_the_announcement_comes_before_the_first_deletion() -> None:
    world = JobWorld(completions=2, parallelism=2, backoffLimit=0)
    world.settle()
    world.run(*world.names())
    world.fail(world.names()[0])
    kinds = [type(it) for it in world.look().instructions]
    assert kinds.index(Patch) < kinds.index(Delete)


def test_restarts_in_place_use_up_the_limit() -> None:
    spec = {"restartPolicy": "OnFailure", "containers": [{"name": "main", "image": "work"}]}
    world = JobWorld(template={"spec": spec}, backoffLimit=3)
    world.settle()
    (name,) = world.names()
    world.restart(name, 2)
    world.settle()
    assert world.conditions == []
    world.restart(name, 3)
    world.settle()
    assert world.conditions[0] == "FailureTarget"


def test_a_job_may_not_be_active_longer_than_it_says() -> None:
    world = JobWorld(activeDeadlineSeconds=60)
    assert world.settle().wake_at_seconds == world.now_seconds + 60
    world.run(*world.names())
    world.advance(59)
    assert world.conditions == []
    world.advance(1)
    world.terminate(world.names(going=True)[0])
    world.settle()
    assert world.conditions == ["FailureTarget", "Failed"]
    assert world.status["conditions"][0]["reason"] == "DeadlineExceeded"


def test_a_suspended_job_has_no_pods_and_a_resumed_one_begins_anew() -> None:
    world = JobWorld(completions=2, parallelism=2, suspend=True, activeDeadlineSeconds=100)
    world.settle()
    assert not world.pods
    assert world.conditions == ["Suspended"]
    assert "startTime" not in world.status
    world.now_seconds += 1000
    world.change_spec(suspend=False)
    world.settle()
    assert len(world.names()) == 2
    assert world.conditions == []
    begun = world.status["startTime"]
    world.run(*world.names())
    world.settle()
    world.now_seconds += 10
    world.change_spec(suspend=True)
    world.settle()
    assert world.conditions == ["Suspended"]
    assert "startTime" not in world.status
    assert world.status["terminating"] == 2
    for name in world.names(going=True):
        world.terminate(name)
    world.settle()
    assert not world.pods
    assert "failed" not in world.status
    world.change_spec(suspend=False)
    world.settle()
    assert len(world.names()) == 2
    assert world.status["startTime"] > begun
    assert world.reasons().count("Suspended") == 2
    assert world.reasons().count("Resumed") == 2


def test_less_parallelism_removes_those_that_lose_least() -> None:
    world = JobWorld(completions=10, parallelism=4)
    world.settle()
    running = world.names()[:2]
    world.run(*running)
    world.settle()
    world.change_spec(parallelism=2)
    world.settle()
    assert world.names() == running
    assert "failed" not in world.status


def test_an_elastic_job_grows_and_shrinks_with_its_indexes() -> None:
    world = JobWorld(completions=3, parallelism=3, completionMode="Indexed")
    world.settle()
    world.succeed(world.by_index(2))
    world.settle()
    assert world.status["completedIndexes"] == "2"
    world.change_spec(completions=5, parallelism=5)
    world.settle()
    assert sorted(map(world.index_of, world.names())) == [0, 1, 3, 4]
    world.change_spec(completions=1, parallelism=1)
    world.settle()
    assert list(map(world.index_of, world.names())) == [0]
    assert "completedIndexes" not in world.status
    world.succeed(*world.names())
    world.settle()
    assert world.conditions == ["SuccessCriteriaMet", "Complete"]
    assert world.status["succeeded"] == 1


def test_an_index_that_fails_too_often_fails_alone() -> None:
    world = JobWorld(completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    world.settle()
    world.fail(world.by_index(0))
    wake = world.settle().wake_at_seconds
    assert wake == world.now_seconds + 10
    assert "failed" not in world.status, "it is kept until its successor goes on counting"
    world.advance(10)
    assert world.status["failed"] == 1
    successor = world.pods[world.by_index(0)]
    assert successor["metadata"]["annotations"][INDEX_FAILURES] == "1"
    world.fail(world.by_index(0))
    world.settle()
    assert world.status["failedIndexes"] == "0"
    assert world.names() == [world.by_index(1)]
    world.succeed(world.by_index(1))
    world.settle()
    assert world.conditions == ["FailureTarget", "Failed"]
    assert world.status["completedIndexes"] == "1"
    assert world.status["conditions"][0]["reason"] == "FailedIndexes"


def test_too_many_failed_indexes_fail_the_job() -> None:
    world = JobWorld(completions=4, parallelism=4, completionMode="Indexed", backoffLimitPerIndex=0, maxFailedIndexes=1)
    world.settle()
    world.fail(world.by_index(0), world.by_index(2))
    world.settle()
    world.settle()
    assert world.status["failedIndexes"] == "0,2"
    assert world.status["conditions"][0]["reason"] == "MaxFailedIndexesExceeded"


def _policy(action: str, **what: Any) -> Manifest:
    return {"rules": [{"action": action, **what}]}


EXIT_42 = {"onExitCodes": {"operator": "In", "values": [42]}}
DISRUPTION = {"onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def test_a_policy_may_fail_the_job_at_an_exit_code() -> None:
    world = JobWorld(podFailurePolicy=_policy("FailJob", **EXIT_42))
    world.settle()
    (name,) = world.names()
    world.fail(name, code=42)
    world.settle()
    assert world.conditions == ["FailureTarget", "Failed"]
    condition = world.status["conditions"][0]
    assert condition["reason"] == "PodFailurePolicy"
    expected = f"Container main for pod {NAMESPACE}/{name} failed with exit code 42 matching FailJob rule at index 0"
    assert condition["message"] == expected


def test_a_policy_may_ignore_a_disruption() -> None:
    world = JobWorld(backoffLimit=0, podFailurePolicy=_policy("Ignore", **DISRUPTION))
    world.settle()
    world.fail(*world.names(), condition="DisruptionTarget")
    world.settle()
    assert world.conditions == []
    world.advance(10)
    assert len(world.names()) == 1
    assert "failed" not in world.status
    world.succeed(*world.names())
    world.settle()
    assert world.conditions == ["SuccessCriteriaMet", "Complete"]


def test_a_policy_may_give_up_an_index() -> None:
    world = JobWorld(
        completions=2,
        parallelism=2,
        completionMode="Indexed",
        backoffLimitPerIndex=5,
        podFailurePolicy=_policy("FailIndex", **EXIT_42),
    )
    world.settle()
    world.fail(world.by_index(1), code=42)
    world.settle()
    assert world.status["failedIndexes"] == "1"
    assert list(map(world.index_of, world.names())) == [0]


def test_ignored_failures_of_an_index_lengthen_its_pause_only() -> None:
    world = JobWorld(
        completions=1,
        completionMode="Indexed",
        backoffLimitPerIndex=0,
        podFailurePolicy=_policy("Ignore", **DISRUPTION),
    )
    world.settle()
    for pause in (10, 20):
        world.fail(world.by_index(0), condition="DisruptionTarget")
        world.settle()
        world.advance(pause)
    annotations = world.pods[world.by_index(0)]["metadata"]["annotations"]
    assert (annotations[INDEX_FAILURES], annotations[INDEX_IGNORED]) == ("0", "2")


@pytest.mark.parametrize(
    ("rules", "succeeded", "message"),
    [
        ([{"succeededIndexes": "0"}], [0], "Matched rules at index 0"),
        ([{"succeededIndexes": "0", "succeededCount": 1}, {"succeededCount": 2}], [1, 2], "Matched rules at index 1"),
        ([{"succeededIndexes": "0-2", "succeededCount": 2}], [1, 2], "Matched rules at index 0"),
    ],
)
def test_a_success_policy_ends_the_job_early(rules: list[Manifest], succeeded: list[int], message: str) -> None:
    world = JobWorld(completions=4, parallelism=4, completionMode="Indexed", successPolicy={"rules": rules})
    world.settle()
    world.run(*world.names())
    world.succeed(*(world.by_index(it) for it in succeeded))
    world.settle()
    assert world.conditions == ["SuccessCriteriaMet"]
    assert world.status["conditions"][0]["message"] == message
    for name in world.names(going=True):
        world.terminate(name)
    world.settle()
    assert world.conditions == ["SuccessCriteriaMet", "Complete"]
    assert world.status["succeeded"] == len(succeeded)
    assert "failed" not in world.status


def test_a_deleted_pod_counts_as_failed_and_is_replaced() -> None:
    world = JobWorld()
    world.settle()
    world.run(*world.names())
    world.delete(*world.names())
    world.settle()
    world.advance(10)
    assert len(world.names()) == 1
    assert world.status["failed"] == 1
    assert world.status["terminating"] == 1


def test_with_replacement_of_failed_pods_only_a_deleted_pod_is_awaited() -> None:
    world = JobWorld(podReplacementPolicy="Failed")
    world.settle()
    (name,) = world.names()
    world.run(name)
    world.delete(name)
    world.settle()
    world.advance(100)
    assert world.names() == []
    assert world.status["terminating"] == 1
    world.terminate(name)
    world.settle()
    world.advance(10)
    assert len(world.names()) == 1
    assert world.status["failed"] == 1


def test_a_finished_job_goes_when_its_time_to_live_has_passed() -> None:
    world = JobWorld(ttlSecondsAfterFinished=30)
    world.settle()
    world.succeed(*world.names())
    assert world.settle().wake_at_seconds == world.now_seconds + 30
    world.advance(29)
    assert not world.is_gone
    world.advance(1)
    assert world.is_gone


def test_the_time_to_live_deletes_this_very_job_with_its_pods_first() -> None:
    world = JobWorld(ttlSecondsAfterFinished=0)
    world.settle()
    assert world.job is not None
    world.succeed(*world.names())
    while not world.is_over:
        world.look()
    (delete,) = world.look().instructions
    assert isinstance(delete, Delete)
    assert (delete.uid, delete.propagation) == ("job-uid", "Foreground")


def test_a_job_of_another_controller_is_left_alone() -> None:
    world = JobWorld(managedBy="kueue.x-k8s.io/multikueue")
    assert not world.look().instructions


def test_a_job_that_is_being_deleted_makes_nothing_and_holds_nothing_back() -> None:
    world = JobWorld(completions=3, parallelism=3)
    world.settle()
    world.run(*world.names())
    assert world.job is not None
    world.job["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z"
    world.delete(world.names()[0])
    world.settle()
    assert len(world.pods) == 3
    assert not any(FINALIZER in it["metadata"].get("finalizers", ()) for it in world.pods.values())


def test_an_orphan_that_it_selects_is_adopted_and_one_that_it_does_not_is_released() -> None:
    world = JobWorld(completions=2, parallelism=2)
    world.settle()
    first, second = world.names()
    world.pods[first]["metadata"]["labels"] = {"other": "x"}
    world.settle()
    assert "ownerReferences" not in world.pods[first]["metadata"]
    assert "finalizers" not in world.pods[first]["metadata"]
    assert len(world.names()) == 3
    newest = next(it for it in world.names() if it not in (first, second))
    for owned in (second, newest):
        del world.pods[owned]["metadata"]["ownerReferences"]
        world.pods[owned]["metadata"]["finalizers"] = ["example.com/other"]
    world.settle()
    for owned in (second, newest):
        metadata = world.pods[owned]["metadata"]
        assert metadata["ownerReferences"][0]["uid"] == "job-uid"
        assert metadata["finalizers"] == ["example.com/other", FINALIZER]
    assert len(world.names()) == 3


def test_a_pod_of_another_owner_is_not_touched() -> None:
    world = JobWorld(completions=1)
    world.settle()
    (name,) = world.names()
    world.pods[name]["metadata"]["ownerReferences"][0]["uid"] = "somebody-else"
    outcome = world.look()
    assert [type(it) for it in outcome.instructions if not isinstance(it, Patch)][:1] == [Create]


def test_foreign_finalizers_stay() -> None:
    world = JobWorld()
    world.settle()
    (name,) = world.names()
    world.pods[name]["metadata"]["finalizers"].append("example.com/mine")
    world.succeed(name)
    world.settle()
    assert world.is_over
    assert world.pods[name]["metadata"]["finalizers"] == ["example.com/mine"]


def test_of_several_pods_with_one_index_all_but_one_go() -> None:
    world = JobWorld(completions=2, parallelism=2, completionMode="Indexed")
    world.settle()
    twin = world.pods[world.by_index(0)]
    world.run(world.by_index(0))
    copy = {**twin, "metadata": {**twin["metadata"], "name": "twin"}, "spec": dict(twin["spec"])}
    copy["spec"].pop("nodeName")
    world.add_pod(copy)
    world.settle()
    assert "twin" not in world.pods
    assert len(world.names()) == 2


def test_an_unknown_completion_mode_is_said_and_nothing_is_done() -> None:
    world = JobWorld()
    world.change_spec(completionMode="Sideways")
    world.settle()
    assert world.reasons() == ["UnknownCompletionMode"]
    assert not world.pods


def test_a_create_that_was_not_seen_asks_for_the_same_name_again() -> None:
    for mode in ("NonIndexed", "Indexed"):
        world = JobWorld(completions=3, parallelism=3, completionMode=mode)
        first = [it["metadata"]["name"] for it in created(world.look(limit=0).instructions)]
        second = [it["metadata"]["name"] for it in created(world.look(limit=0).instructions)]
        assert first == second
        assert len(set(first)) == 3


def test_a_name_that_is_taken_by_somebody_is_passed_over() -> None:
    world = JobWorld()
    (wanted,) = created(reconcile(world.document, [], world.now_seconds).instructions)
    name = wanted["metadata"]["name"]
    (other,) = created(reconcile(world.document, [], world.now_seconds, is_taken={name}.__contains__).instructions)
    assert other["metadata"]["name"] != name


def test_names_stay_short_enough_for_a_host_name() -> None:
    for mode in ("NonIndexed", "Indexed"):
        world = JobWorld(name="j" * 63, completions=1, completionMode=mode)
        world.settle()
        assert max(map(len, world.pods)) <= 63


def test_a_status_is_guarded_by_the_version_it_was_made_from() -> None:
    world = JobWorld()
    patch = world.look(limit=0).instructions[0]
    assert isinstance(patch, Patch)
    assert (patch.version, patch.subresource) == ("1", "status")


def test_pods_are_deleted_by_uid_and_changed_by_version() -> None:
    world = JobWorld(completions=3, parallelism=3)
    world.settle()
    world.change_spec(parallelism=1)
    for instruction in world.look(limit=0).instructions:
        if isinstance(instruction, Delete):
            assert instruction.uid
        if isinstance(instruction, Patch) and instruction.resource == PODS:
            assert instruction.version


def test_a_huge_job_is_made_and_counted_in_portions() -> None:
    world = JobWorld(completions=600, parallelism=600)
    assert len(created(world.look().instructions)) == 500
    world.settle()
    assert world.status["active"] == 600
    world.succeed(*world.names())
    world.look()
    assert len(world.status["uncountedTerminatedPods"]["succeeded"]) == 500
    world.settle()
    assert world.status["succeeded"] == 600
    assert world.conditions == ["SuccessCriteriaMet", "Complete"]


def test_an_indexed_job_with_the_most_completions_is_no_more_work_than_its_parallelism() -> None:
    world = JobWorld(completions=2**31 - 1, parallelism=2, completionMode="Indexed")
    world.settle()
    assert sorted(map(world.index_of, world.names())) == [0, 1]


def test_a_status_with_nonsense_in_its_indexes_is_survived() -> None:
    world = JobWorld(completions=3, parallelism=3, completionMode="Indexed")
    assert world.job is not None
    world.job["status"] = {"completedIndexes": "x,1-,0,9999999999999999999,-4", "uncountedTerminatedPods": None}
    world.look(limit=1)
    assert world.status["completedIndexes"] == "0"
