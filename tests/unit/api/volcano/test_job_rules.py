"""Everything that is refused of a Volcano Job is refused with the field's path, what is wrong and what is allowed."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from allhands.api.errors import FieldError, invalid
from allhands.api.volcano.job_rules import MOST_PODS, create_errors, update_errors
from allhands.api.volcano.plugin_names import JOB_PLUGINS
from tests.unit.api.volcano.volcano_objects import around, completed, container, job, queue, task, told

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
HARD = {"mode": "hard", "highestTierAllowed": 1}


def _errors(manifest: dict[str, Any], *queues: dict[str, Any]) -> list[str]:
    return told(create_errors(completed(manifest), around(*queues)))


def _template(**spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [container()], **spec}}


def _cpu(amount: Any, **more: Any) -> dict[str, Any]:
    return {"spec": {"containers": [container(resources={"requests": {"cpu": amount}})], **more}}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"tasks": [task("a"), task("b", 0)], "minAvailable": 1},
        {"tasks": [task("", 2), task("", 1)]},
        {"tasks": [task(replicas=100_000)]},
        {"policies": [{"event": "PodFailed", "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}]},
        {"policies": [{"events": ["PodFailed", "PodEvicted"], "event": "PodFailed", "action": "RestartPod"}]},
        {"policies": [{"event": "*", "action": "RestartJob", "timeout": "1h30m"}]},
        {"policies": [{"exitCode": 255, "action": "RestartJob"}], "minSuccess": 2},
        {
            "tasks": [task("a"), task("b", partitionPolicy={"totalPartitions": 1, "partitionSize": 2})],
            "policies": [{"event": "PodFailed", "action": "RestartPartition"}],
        },
        {"plugins": {name: [] for name in sorted(JOB_PLUGINS - {"mpi"})}},
        {"plugins": {"mpi": ["--master=worker", "--port=22"]}},
        {"volumes": [{"mountPath": "/a", "volumeClaim": CLAIM}, {"mountPath": "/b", "volumeClaimName": "there"}]},
        {"tasks": [task("a", dependsOn={"name": ["b", "c"]}), task("b", dependsOn={"name": ["c"]}), task("c")]},
        {"tasks": [task(replicas=6, partitionPolicy={"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2})]},
        {"tasks": [task(topologyPolicy="restricted", template=_cpu("4"))]},
        {"tasks": [task(topologyPolicy="none", template=_cpu("500m"))]},
        {"networkTopology": HARD},
        {"networkTopology": {"mode": "soft"}},
        {"networkTopology": {"highestTierName": "rack"}},
        {"runningEstimate": "2h"},
    ],
    ids=str,
)
def test_a_job_that_makes_sense_is_taken(spec: dict[str, Any]) -> None:
    assert _errors(job(**spec)) == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param({"tasks": []}, "spec.tasks: Required value: a Job needs at least one task", id="no task"),
        pytest.param(
            {"tasks": [task("a"), task("a")]}, 'spec.tasks[1].name: Duplicate value: "a"', id="two tasks of one name"
        ),
        pytest.param(
            {"tasks": [task(), task(minAvailable=3, name="b")]},
            "spec.tasks[1].minAvailable: Invalid value: 3: must not be more than replicas, which is 2",
            id="a minimum above the replicas",
        ),
        pytest.param(
            {"minAvailable": 5},
            "spec.minAvailable: Invalid value: 5: must not be more than the replicas of all tasks together, which "
            "are 2",
            id="a minimum above all replicas",
        ),
        pytest.param(
            {"tasks": [task("a", MOST_PODS), task("b", 1)]},
            f"spec.tasks: Invalid value: 100001: all replicas together are 100001; a Job may have at most {MOST_PODS}",
            id="more pods than one Job may have",
        ),
        pytest.param(
            {"tasks": [task(replicas=2**31 - 1)]},
            "a Job may have at most 100000 pods",
            id="two thousand million pods",
        ),
        pytest.param(
            {"tasks": [task("w" * 60, 2)]},
            "its pods would be called train-",
            id="pods whose names are too long",
        ),
        pytest.param(
            {"tasks": [task("Worker")]}, 'spec.tasks[0].name: Invalid value: "Worker": a lowercase RFC', id="a name"
        ),
        pytest.param(
            {"tasks": [task(template={"spec": {"containers": []}})]},
            "spec.tasks[0].template.spec.containers: Required value",
            id="a template without containers",
        ),
        pytest.param(
            {"tasks": [{"name": "a", "replicas": 1}]},
            "spec.tasks[0].template.spec.containers: Required value",
            id="no template",
        ),
        pytest.param(
            {"tasks": [task(template=_template(restartPolicy="Sometimes"))]},
            'spec.tasks[0].template.spec.restartPolicy: Unsupported value: "Sometimes"',
            id="a restart policy that pods do not have",
        ),
        pytest.param(
            {"tasks": [task(template=_template(volumes=[{"name": "v"}, {"name": "v"}]))]},
            "spec.tasks[0].template.spec.volumes[1].name: Duplicate value",
            id="volumes of one name",
        ),
        pytest.param(
            {"tasks": [task(template=_cpu("-1"))]},
            "spec.tasks[0].template.spec.containers[0].resources.requests[cpu]: Invalid value",
            id="a negative request",
        ),
        pytest.param(
            {"tasks": [task(topologyPolicy="restricted", template=_cpu("1500m"))]},
            'spec.tasks[0].template.spec.containers[0].resources.requests[cpu]: Invalid value: "1500m": must be a '
            "whole number of CPUs with topologyPolicy restricted",
            id="a part of a CPU that is to be pinned",
        ),
        pytest.param(
            {"tasks": [task(topologyPolicy="best-effort", template=_template())]},
            "with topologyPolicy best-effort each container must ask for whole CPUs",
            id="no CPU that could be pinned",
        ),
        pytest.param(
            {"tasks": [task(topologyPolicy="restricted", template=_cpu(1, initContainers=[container(name="init")]))]},
            "spec.tasks[0].template.spec.initContainers[0].resources.requests[cpu]: Required value",
            id="an init container without CPUs",
        ),
        pytest.param(
            {"tasks": [task(replicas=5, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})]},
            "spec.tasks[0].replicas: Invalid value: 5: must be 4: spec.tasks[0].partitionPolicy says 2 parts of 2",
            id="parts that do not make up the whole",
        ),
        pytest.param(
            {
                "tasks": [
                    task(
                        replicas=4,
                        minAvailable=3,
                        partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1},
                    )
                ]
            },
            "spec.tasks[0].minAvailable: Invalid value: 3: must be 2",
            id="a minimum that is no whole number of parts",
        ),
        pytest.param(
            {
                "tasks": [
                    task(
                        replicas=4,
                        partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "networkTopology": {"mode": "hard"}},
                    )
                ]
            },
            "spec.tasks[0].partitionPolicy.networkTopology.highestTierAllowed: Required value: with mode hard",
            id="parts that must be close, nobody knows how",
        ),
        pytest.param(
            {"networkTopology": {"mode": "hard"}},
            "spec.networkTopology.highestTierAllowed: Required value: with mode hard",
            id="hard topology without a tier",
        ),
        pytest.param(
            {"networkTopology": {"highestTierAllowed": 0, "highestTierName": "rack"}},
            "spec.networkTopology.highestTierName: Forbidden: the highest tier is said by",
            id="a tier by number and by name",
        ),
        pytest.param(
            {"tasks": [task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]})]},
            'spec.tasks[0].dependsOn.name: Invalid value: ["b"]: tasks would wait for each other for ever: a -> b -> a',
            id="tasks that wait for each other",
        ),
        pytest.param(
            {"tasks": [task("a", dependsOn={"name": ["a"]})]}, "for ever: a -> a", id="a task that waits for itself"
        ),
        pytest.param(
            {"tasks": [task("a", dependsOn={"name": ["c"]})]},
            'spec.tasks[0].dependsOn.name[0]: Not found: "c"',
            id="a task that waits for nobody",
        ),
        pytest.param(
            {"tasks": [task("a"), task("b", dependsOn={"name": ["a", "a"]})]},
            'spec.tasks[1].dependsOn.name[1]: Duplicate value: "a"',
            id="a task that waits for another twice",
        ),
        pytest.param(
            {"minSuccess": 3},
            "spec.minSuccess: Invalid value: 3: must not be more than the replicas of all tasks together, which are 2",
            id="more successes than pods",
        ),
        pytest.param(
            {"policies": [{"event": "PodFailed", "action": "RestartPartition"}]},
            'spec.policies[0].action: Invalid value: "RestartPartition": no task has a partitionPolicy',
            id="parts are restarted where there are none",
        ),
        pytest.param(
            {"tasks": [task("a", policies=[{"event": "PodFailed", "action": "RestartPartition"}])]},
            'spec.tasks[0].policies[0].action: Invalid value: "RestartPartition": the task has no partitionPolicy',
            id="parts of a task that has none",
        ),
        pytest.param(
            {"plugins": {"sv": []}},
            'spec.plugins[sv]: Unsupported value: "sv": supported values: "env"',
            id="a plugin that is not there",
        ),
        pytest.param(
            {"plugins": {"mpi": []}},
            'spec.plugins[mpi]: Invalid value: []: no task is called "master"',
            id="mpi without a master",
        ),
        pytest.param(
            {"plugins": {"mpi": ["--master=chief"]}}, 'no task is called "chief"', id="mpi with another master"
        ),
        pytest.param(
            {"volumes": [{"mountPath": "/a", "volumeClaimName": "x"}, {"mountPath": "/a", "volumeClaimName": "y"}]},
            'spec.volumes[1].mountPath: Duplicate value: "/a"',
            id="two volumes at one place",
        ),
        pytest.param(
            {"volumes": [{"mountPath": "/a"}]},
            "spec.volumes[0].volumeClaimName: Required value: either the name of a claim",
            id="a volume of nothing",
        ),
        pytest.param(
            {"volumes": [{"mountPath": "/a", "volumeClaimName": "x", "volumeClaim": CLAIM}]},
            "spec.volumes[0].volumeClaimName: Forbidden: a claim is either there",
            id="a claim that is there and made",
        ),
        pytest.param(
            {"volumes": [{"mountPath": "/a", "volumeClaimName": "No"}]},
            'spec.volumes[0].volumeClaimName: Invalid value: "No"',
            id="a claim whose name cannot be",
        ),
        pytest.param(
            {"volumes": [{"mountPath": "/a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]},
            "spec.volumes[0].volumeClaim.resources[storage]: Required value",
            id="a claim that the server would refuse",
        ),
        pytest.param(
            {"runningEstimate": "soon"}, 'spec.runningEstimate: Invalid value: "soon": time: invalid', id="a duration"
        ),
        pytest.param({"runningEstimate": "-5m"}, "must not be negative", id="a duration below zero"),
        pytest.param({"queue": "nowhere"}, 'spec.queue: Not found: "nowhere"', id="a queue that is not there"),
        pytest.param(
            {"queue": "root"}, 'spec.queue: Invalid value: "root": nothing is submitted', id="the queue above all"
        ),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(spec: dict[str, Any], words: str) -> None:
    found = _errors(job(**spec))
    assert any(words in text for text in found), found


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        pytest.param(
            [{"event": "PodFailed", "exitCode": 1, "action": "RestartJob"}],
            "[0].exitCode: Forbidden: a policy is about events or about an exit code",
            id="an event and an exit code",
        ),
        pytest.param([{"action": "RestartJob"}], "[0].event: Required value", id="about nothing"),
        pytest.param([{"events": [], "action": "RestartJob"}], "[0].event: Required value", id="about no event"),
        pytest.param([{"event": "PodFailed"}], "[0].action: Required value: one of AbortJob", id="no action"),
        pytest.param([{"exitCode": 2}], "[0].action: Required value", id="no action for an exit code"),
        pytest.param(
            [{"event": "OutOfSync", "action": "RestartJob"}],
            '[0].event: Unsupported value: "OutOfSync"',
            id="an event of controllers",
        ),
        pytest.param(
            [{"events": ["PodFailed", "PodRunning"], "action": "RestartJob"}],
            '[0].events[1]: Unsupported value: "PodRunning"',
            id="one of several events",
        ),
        pytest.param(
            [{"event": "PodFailed", "action": "SyncJob"}],
            '[0].action: Unsupported value: "SyncJob"',
            id="an action of controllers",
        ),
        pytest.param(
            [{"exitCode": 0, "action": "AbortJob"}], "[0].exitCode: Invalid value: 0", id="an exit code of success"
        ),
        pytest.param(
            [{"exitCode": 256, "action": "AbortJob"}],
            "[0].exitCode: Invalid value: 256: no process ends with it; from 1 to 255",
            id="an exit code above all",
        ),
        pytest.param(
            [{"exitCode": -1, "action": "AbortJob"}],
            "[0].exitCode: Invalid value: -1: no process ends with it",
            id="an exit code below all",
        ),
        pytest.param(
            [{"event": "PodFailed", "action": "AbortJob"}, {"events": ["PodFailed"], "action": "RestartJob"}],
            '[1].events[0]: Invalid value: "PodFailed": spec',
            id="two answers to one event",
        ),
        pytest.param(
            [{"exitCode": 3, "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}],
            "[1].exitCode: Invalid value: 3: spec",
            id="two answers to one exit code",
        ),
        pytest.param(
            [{"event": "*", "action": "AbortJob"}, {"event": "PodFailed", "action": "RestartJob"}],
            '[0].event: Invalid value: "*": * is every event',
            id="every event and one more",
        ),
        pytest.param(
            [{"event": "PodFailed", "action": "AbortJob", "timeout": "10"}],
            '[0].timeout: Invalid value: "10": time: missing unit',
            id="a time-out without a unit",
        ),
    ],
)
@pytest.mark.parametrize("of_task", [False, True], ids=["of the Job", "of a task"])
def test_policies_that_contradict_each_other_are_refused(
    policies: list[dict[str, Any]], words: str, of_task: bool
) -> None:
    manifest = job(tasks=[task(policies=policies)]) if of_task else job(policies=policies)
    path = "spec.tasks[0].policies" if of_task else "spec.policies"
    found = _errors(manifest)
    assert any(text.startswith(path + words) for text in found), found


def test_several_mistakes_are_told_at_once() -> None:
    manifest = job("Train", tasks=[task(minAvailable=9), task()], plugins={"x": []}, queue="nowhere")
    paths = [error.path for error in create_errors(completed(manifest), around())]
    assert paths == [
        "spec.tasks[1].name",
        "spec.tasks[0].minAvailable",
        "spec.minAvailable",
        "spec.plugins[x]",
        "spec.queue",
    ]


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ([queue("q", state="Closed")], "the queue is Closed; only an open queue takes Jobs"),
        ([queue("q", state="Closing")], "the queue is Closing"),
        ([queue("q", parent="up"), queue("up", state="Closed")], "the queue up above it is Closed"),
        ([queue("q", parent="mid"), queue("mid", parent="up"), queue("up", state="Closing")], "the queue up above it"),
        ([queue("q"), queue("below", parent="q")], "below this are below"),
    ],
    ids=["a closed queue", "a queue that closes", "below a closed one", "far below one", "a queue with queues below"],
)
def test_only_an_open_leaf_takes_jobs(queues: list[dict[str, Any]], words: str) -> None:
    found = _errors(job(queue="q"), *queues)
    assert len(found) == 1
    assert words in found[0]


def test_a_queue_that_nobody_has_looked_at_yet_is_open() -> None:
    assert _errors(job(queue="fresh"), queue("fresh", state="")) == []


def test_plugins_have_their_say_about_a_job_that_makes_sense_otherwise() -> None:
    asked = msgspec.structs.replace(around(), plugin_errors=lambda _job: [invalid("spec.plugins[svc]", 1, "no")])
    assert told(create_errors(completed(job()), asked)) == ["spec.plugins[svc]: Invalid value: 1: no"]


MIN_AVAILABLE = "volcano.sh/jdb-min-available"


def test_a_limit_of_disturbance_that_cannot_be_read_is_refused_when_it_comes_and_when_it_is_written() -> None:
    words = f'metadata.annotations[{MIN_AVAILABLE}]: Invalid value: "most": must be a whole number above 0'
    wrong = completed(job())
    wrong["metadata"]["annotations"] = {MIN_AVAILABLE: "most"}
    assert any(words in text for text in told(create_errors(wrong, around())))
    assert any(words in text for text in told(update_errors(wrong, completed(job()), around())))
    assert update_errors(wrong, wrong, around()) == []


# -- changes


def _update(change: Any, **spec: Any) -> list[str]:
    old = completed(job(**spec))
    new = copy.deepcopy(old)
    change(new["spec"])
    return told(update_errors(new, old, around()))


def test_a_job_is_scaled_and_gets_another_priority() -> None:
    def scale(spec: Any) -> None:
        spec["tasks"][0] |= {"replicas": 7, "minAvailable": 4}
        spec |= {"minAvailable": 5, "priorityClassName": "high"}

    assert _update(scale) == []


def test_the_name_of_a_claim_that_was_made_may_be_written_down() -> None:
    volumes = [{"mountPath": "/a", "volumeClaim": CLAIM}]
    assert _update(lambda spec: spec["volumes"][0].update(volumeClaimName="made"), volumes=volumes) == []


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda spec: spec.update(queue="other"), "spec.queue"),
        (lambda spec: spec.update(schedulerName="other"), "spec.schedulerName"),
        (lambda spec: spec.update(maxRetry=9), "spec.maxRetry"),
        (lambda spec: spec.update(plugins={"svc": []}), "spec.plugins"),
        (lambda spec: spec.update(policies=[]), "spec.policies"),
        (lambda spec: spec.pop("ttlSecondsAfterFinished"), "spec.ttlSecondsAfterFinished"),
        (lambda spec: spec["tasks"][0].update(name="other"), "spec.tasks[0].name"),
        (lambda spec: spec["tasks"][0]["template"]["spec"].update(nodeName="n"), "spec.tasks[0].template"),
        (lambda spec: spec["tasks"].append(task("more")), "spec.tasks"),
        (lambda spec: spec["tasks"].clear(), "spec.tasks"),
        (lambda spec: spec["volumes"][0].update(volumeClaimName="other"), "spec.volumes"),
    ],
)
def test_everything_else_stays_as_it_is(change: Any, path: str) -> None:
    volumes = [{"mountPath": "/a", "volumeClaimName": "there"}]
    policies = [{"event": "PodFailed", "action": "AbortJob"}]
    found = _update(change, ttlSecondsAfterFinished=5, volumes=volumes, policies=policies)
    assert any(text.startswith(f"{path}: Forbidden: ") for text in found), found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda spec: spec["tasks"][0].update(replicas=1), "spec.tasks[0].minAvailable: Invalid value: 2"),
        (lambda spec: spec.update(minAvailable=8), "spec.minAvailable: Invalid value: 8"),
        (lambda spec: spec["tasks"][0].update(replicas=200_000), "at most 100000 pods"),
    ],
    ids=["fewer than the minimum", "a minimum above all", "too many"],
)
def test_a_job_is_not_scaled_to_what_makes_no_sense(change: Any, words: str) -> None:
    found = _update(change)
    assert any(words in text for text in found), found


def test_a_job_may_be_scaled_below_its_successes_and_up_again() -> None:
    def shrink(spec: Any) -> None:
        spec["tasks"][0] |= {"replicas": 0, "minAvailable": 0}
        spec["minAvailable"] = 0

    assert _update(shrink, minSuccess=2) == []


def test_parts_are_scaled_only_whole() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 2}
    found = _update(lambda spec: spec["tasks"][0].update(replicas=5), tasks=[task(replicas=4, partitionPolicy=policy)])
    assert any("spec.tasks[0].replicas: Invalid value: 5: must be 4" in text for text in found)


def test_a_job_that_was_never_right_can_still_lose_its_finalizer() -> None:
    old = job(tasks=[task(minAvailable=9)])
    new = copy.deepcopy(old)
    new["metadata"]["finalizers"] = []
    assert update_errors(new, old, around()) == []


def test_plugins_have_their_say_about_what_a_change_makes_wrong_and_only_that() -> None:
    def complaints(manifest: Any) -> list[FieldError]:
        count = manifest["spec"]["tasks"][0]["replicas"]
        return [invalid("spec.plugins[svc]", "old", "was wrong"), *([invalid("spec", count, "many")] * (count > 3))]

    asked = msgspec.structs.replace(around(), plugin_errors=complaints)
    old = completed(job())
    for count, wanted in ((3, []), (4, ["spec: Invalid value: 4: many"])):
        new = copy.deepcopy(old)
        new["spec"]["tasks"][0]["replicas"] = count
        assert told(update_errors(new, old, asked)) == wanted
