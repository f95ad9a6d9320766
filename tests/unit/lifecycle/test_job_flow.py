"""What a JobFlow does next: whose turn it is, what a patch makes of a template, retries, and what its status says."""

from __future__ import annotations

import datetime
import itertools
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.patch import merge_patch
from allhands.lifecycle.cron_job import CronsJob
from allhands.lifecycle.instructions import Create, Delete, Patch, Record
from allhands.lifecycle.job_flow.documents import FlowDocument, FlowsJob, TemplateDocument
from allhands.lifecycle.job_flow.machine import Look, Refused, reconcile
from allhands.lifecycle.job_flow.overlay import overlaid
from allhands.lifecycle.job_flow.plan import plan_of

if TYPE_CHECKING:
    from allhands.lifecycle.job_flow.probing import Question

NOW = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC).timestamp()
HTTP = {"httpGetList": [{"taskName": "web", "path": "/up", "port": 8080}]}


class Around:
    """A world of dictionaries."""

    def __init__(self, *templates: str, jobs: dict[str, FlowsJob] | None = None) -> None:
        self.templates = {name: _template(name) for name in templates}
        self.jobs = dict(jobs or {})
        self.refusals: dict[str, Refused] = {}
        self.plain: dict[str, CronsJob] = {}
        self.taken: set[str] = set()
        self.answered: set[Question] = set()

    def template(self, name: str) -> TemplateDocument | None:
        return self.templates.get(name)

    def outside(self, name: str) -> CronsJob | None:
        return self.plain.get(name)

    def is_taken(self, name: str) -> bool:
        return name in self.taken

    def holds(self, question: Question) -> bool:
        return question in self.answered


def _template(name: str, **annotations: str) -> TemplateDocument:
    metadata = {
        "name": name,
        "namespace": "ns",
        "annotations": {f"allhands.dev/{k}": v for k, v in annotations.items()},
    }
    spec = {"queue": "default", "tasks": [{"name": "web", "replicas": 2}]}
    return msgspec.convert({"metadata": metadata, "spec": spec}, TemplateDocument)


def flow(
    *steps: Any, status: Any = None, annotations: dict[str, str] | None = None, going: bool = False, **spec: Any
) -> FlowDocument:
    metadata: dict[str, Any] = {"name": "f", "namespace": "ns", "uid": "u", "resourceVersion": "7"}
    metadata["annotations"] = annotations or {}
    if going:
        metadata["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    flows = [{"name": it} if isinstance(it, str) else it for it in steps]
    manifest = {"metadata": metadata, "spec": {"flows": flows, **spec}, "status": status or {}}
    return msgspec.convert(manifest, FlowDocument)


def after(name: str, *targets: str, **probe: Any) -> dict[str, Any]:
    return {"name": name, "dependsOn": {"targets": list(targets), **({"probe": probe} if probe else {})}}


def job(step: str, phase: str = "", *, running: int = 0, attempt: int = 0, **status: Any) -> FlowsJob:
    metadata: dict[str, Any] = {"name": f"f-{step}", "namespace": "ns", "uid": f"uid-{step}-{attempt}"}
    metadata["creationTimestamp"] = "2026-01-31T11:59:00Z"
    if attempt:
        metadata["annotations"] = {"allhands.dev/flow-attempt": str(attempt)}
    if running:
        status["taskStatusCount"] = {"web": {"phase": {"Running": running}}}
    if phase:
        status["state"] = {"phase": phase}
    spec = {"tasks": [{"name": "web", "replicas": 2}]}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, FlowsJob)


def look(document: FlowDocument, around: Around, now: float = NOW, **more: Any) -> Look:
    return reconcile(document, plan_of(document.spec), around, now, **more)


def created(outcome: Look) -> list[str]:
    return [it.manifest["metadata"]["name"] for it in outcome.outcome.instructions if isinstance(it, Create)]


def deleted(outcome: Look) -> list[str]:
    return [it.name for it in outcome.outcome.instructions if isinstance(it, Delete)]


def told(outcome: Look) -> list[tuple[str, str]]:
    return [(it.type, it.reason) for it in outcome.outcome.instructions if isinstance(it, Record)]


def patched(outcome: Look) -> dict[str, Any]:
    return next((it.patch["status"] for it in outcome.outcome.instructions if isinstance(it, Patch)), {})


def written(document: FlowDocument, outcome: Look) -> FlowDocument:
    """The flow once its status is as the look wants it."""
    status = merge_patch(document.written, patched(outcome))
    return msgspec.structs.replace(document, status=status)


# -- whose turn it is


def test_steps_that_wait_for_nobody_begin_at_once_with_all_marks_of_volcano() -> None:
    outcome = look(flow("a", after("b", "a"), "c"), Around("a", "b", "c"))
    assert created(outcome) == ["f-a", "f-c"]
    creation = next(it for it in outcome.outcome.instructions if isinstance(it, Create))
    marks = {"volcano.sh/createdByJobTemplate": "ns.a", "volcano.sh/createdByJobFlow": "ns.f"}
    metadata = creation.manifest["metadata"]
    assert metadata["labels"] == metadata["annotations"] == marks
    (owner,) = metadata["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["uid"]) == ("flow.volcano.sh/v1alpha1", "JobFlow", "u")
    assert (owner["controller"], owner["blockOwnerDeletion"]) == (True, True)
    assert creation.manifest["apiVersion"] == "batch.volcano.sh/v1alpha1"
    assert creation.unless_there
    assert told(outcome) == [("Normal", "Created")] * 2


@pytest.mark.parametrize(("phase", "begins"), [("Running", False), ("Completing", False), ("Completed", True)])
def test_a_step_begins_when_all_that_it_waits_for_is_completed(phase: str, begins: bool) -> None:
    around = Around("a", "b", "c", jobs={"f-a": job("a", phase), "f-b": job("b", "Completed")})
    assert created(look(flow("a", "b", after("c", "a", "b")), around)) == (["f-c"] if begins else [])


def test_marks_that_are_too_long_for_labels_are_left_to_the_annotations() -> None:
    name = "x" * 61
    creation = next(it for it in look(flow(name), Around(name)).outcome.instructions if isinstance(it, Create))
    metadata = creation.manifest["metadata"]
    assert "volcano.sh/createdByJobTemplate" not in metadata["labels"]
    assert metadata["annotations"]["volcano.sh/createdByJobTemplate"] == f"ns.{name}"


def test_a_job_that_was_completed_and_is_gone_is_not_made_again_and_others_go_on() -> None:
    document = flow("a", after("b", "a"))
    around = Around("a", "b", jobs={"f-a": job("a", "Completed")})
    document = written(document, look(document, around))
    del around.jobs["f-a"]
    outcome = look(document, around)
    assert created(outcome) == ["f-b"]
    assert document.written["completedJobs"] == ["f-a"]


def test_a_job_that_vanished_before_it_ended_is_made_again_without_waiting_anew() -> None:
    document = flow("a", after("b", "a"))
    around = Around("a", "b", jobs={"f-a": job("a", "Completed"), "f-b": job("b", "Running")})
    document = written(document, look(document, around))
    del around.jobs["f-b"]
    assert created(look(document, around)) == ["f-b"]


# -- jobs of batch/v1


def plain(end: str) -> CronsJob:
    conditions = [{"type": end, "status": "True"}] if end else []
    return msgspec.convert(
        {"metadata": {"name": "old", "namespace": "ns"}, "status": {"conditions": conditions}}, CronsJob
    )


def test_a_step_may_wait_for_a_job_of_batch_and_remembers_that_it_was_complete() -> None:
    document = flow(after("a", "job.batch/old"))
    around = Around("a")
    waiting = look(document, around)
    assert created(waiting) == []
    assert patched(waiting)["state"] == {
        "phase": "Pending",
        "reason": "Waiting",
        "message": "step a: job.batch/old is not there",
    }
    around.plain["old"] = plain("")
    assert created(look(document, around)) == []
    around.plain["old"] = plain("Complete")
    outcome = look(document, around)
    assert created(outcome) == ["f-a"]
    document = written(document, outcome)
    del around.plain["old"]
    assert created(look(document, around)) == ["f-a"]


def test_a_job_of_batch_that_failed_fails_the_flow() -> None:
    around = Around("a")
    around.plain["old"] = plain("Failed")
    state = patched(look(flow(after("a", "job.batch/old")), around))["state"]
    assert (state["phase"], state["reason"]) == ("Failed", "StepFailed")
    assert state["message"] == "job.batch/old, which is waited for, has failed"


# -- probes


def test_a_probe_of_phases_lets_a_step_begin_while_the_other_runs() -> None:
    document = flow("a", after("b", "a", taskStatusList=[{"taskName": "web", "phase": "Running"}]))
    around = Around("a", "b", jobs={"f-a": job("a", "Running", running=1)})
    outcome = look(document, around)
    assert created(outcome) == []
    assert patched(outcome)["state"]["message"] == "step b: the pods of task web of Job f-a are not all Running yet"
    around.jobs["f-a"] = job("a", "Running", running=2)
    assert created(look(document, around)) == ["f-b"]


def test_a_probe_over_http_is_asked_once_all_pods_run_and_the_answer_lets_the_step_begin() -> None:
    document = flow("a", after("b", "a", **HTTP))
    around = Around("a", "b", jobs={"f-a": job("a", "Running", running=1)})
    assert look(document, around).questions == ()
    around.jobs["f-a"] = job("a", "Running", running=2)
    asked = look(document, around)
    (question,) = asked.questions
    assert (question.job_uid, question.task, question.port, question.path) == ("uid-a-0", "web", 8080, "/up")
    assert created(asked) == []
    around.answered.add(question)
    assert created(look(document, around)) == ["f-b"]


def test_a_job_that_is_completed_needs_no_probe() -> None:
    document = flow("a", after("b", "a", tcpSocketList=[{"taskName": "web", "port": 1}]))
    around = Around("a", "b", jobs={"f-a": job("a", "Completed")})
    outcome = look(document, around)
    assert (created(outcome), outcome.questions) == (["f-b"], ())


def test_a_probe_of_a_task_that_nobody_has_is_told() -> None:
    document = flow("a", after("b", "a", tcpSocketList=[{"taskName": "db", "port": 1}]))
    outcome = look(document, Around("a", "b", jobs={"f-a": job("a", "Running", running=2)}))
    assert patched(outcome)["state"]["message"] == 'step b: no Job that is waited for has a task "db"'


# -- patches


def test_a_patch_goes_over_the_template_by_names() -> None:
    step = {
        "name": "a",
        "patch": {
            "jobSpec": {"queue": "fast", "tasks": [{"name": "web", "replicas": 5}, {"name": "db", "replicas": 1}]}
        },
    }
    creation = next(it for it in look(flow(step), Around("a")).outcome.instructions if isinstance(it, Create))
    assert creation.manifest["spec"] == {
        "queue": "fast",
        "tasks": [{"name": "web", "replicas": 5}, {"name": "db", "replicas": 1}],
    }


def test_pod_specs_are_patched_container_by_container_and_the_template_stays_as_it_is() -> None:
    container = {"name": "c", "image": "old", "args": ["1", "2"], "env": [{"name": "A", "value": "1"}]}
    before = {"tasks": [{"name": "w", "template": {"spec": {"containers": [container], "nodeSelector": {"a": "b"}}}}]}
    text = msgspec.json.encode(before)
    change = {"image": "new", "args": ["3"], "env": [{"name": "A", "valueFrom": {}}, {"name": "B", "value": "2"}]}
    patch = {
        "tasks": [{"template": {"spec": {"containers": [{"name": "c", **change}], "nodeSelector": {"x": "y"}}}}],
        "plugins": {"env": []},
    }
    after_it = overlaid(before, patch)
    spec = after_it["tasks"][0]["template"]["spec"]
    assert after_it["tasks"][0]["name"] == "w"
    assert spec["containers"] == [{"name": "c", **change}]
    assert spec["nodeSelector"] == {"a": "b", "x": "y"}
    assert after_it["plugins"] == {"env": []}
    assert msgspec.json.encode(before) == text


# -- what goes wrong


def test_a_flow_whose_steps_wait_for_each_other_begins_nothing_and_says_who() -> None:
    outcome = look(flow("a", after("b", "c"), after("c", "b")), Around("a", "b", "c"))
    assert created(outcome) == []
    state = patched(outcome)["state"]
    assert (state["phase"], state["reason"]) == ("Failed", "InvalidFlow")
    assert "b -> c -> b" in state["message"]
    assert ("Warning", "InvalidFlow") in told(outcome)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([after("a", "nobody")], 'spec.flows[0].dependsOn.targets[0]: there is no step "nobody"'),
        (["a", "a"], 'spec.flows[1].name: there are two steps "a"'),
        ([after("a", "job.batch/")], "a target is a step of the flow or job.batch/NAME"),
    ],
)
def test_a_flow_that_makes_no_sense_says_where(steps: list[Any], message: str) -> None:
    state = patched(look(flow(*steps), Around("a")))["state"]
    assert state["phase"] == "Failed"
    assert message in state["message"]


def test_a_template_that_is_missing_is_told_and_the_others_go_on() -> None:
    document = flow("a", "b")
    around = Around("b")
    outcome = look(document, around)
    assert created(outcome) == ["f-b"]
    state = patched(outcome)["state"]
    assert state == {
        "phase": "Pending",
        "reason": "MissingTemplate",
        "message": 'step a: there is no JobTemplate "a"',
    }
    around.templates["a"] = _template("a")
    assert "f-a" in created(look(document, around))


def test_a_job_of_somebody_else_in_the_way_is_told_and_left_alone() -> None:
    around = Around("a")
    around.taken.add("f-a")
    outcome = look(flow("a"), around)
    assert created(outcome) == deleted(outcome) == []
    assert patched(outcome)["state"]["reason"] == "NameTaken"


def test_a_refused_step_holds_up_nobody_and_is_tried_again_last_and_alone() -> None:
    document = flow("a", "b", "c")
    around = Around("a", "b", "c")
    around.refusals = {"a": Refused("no", NOW + 10, True), "b": Refused("no", NOW + 20, True)}
    early = look(document, around)
    assert created(early) == ["f-c"]
    assert early.outcome.wake_at_seconds == NOW + 10
    assert patched(early)["state"]["message"] == "step a: no; step b: no"
    assert created(look(document, around, NOW + 30)) == ["f-c", "f-a"]


def test_a_flow_whose_last_hope_is_refused_for_good_has_failed_until_somebody_mends_it() -> None:
    document = flow("a", after("b", "a"))
    around = Around("a", "b")
    around.refusals = {"a": Refused("spec.tasks: Required value", NOW + 10, True)}
    state = patched(look(document, around))["state"]
    assert (state["phase"], state["reason"]) == ("Failed", "StepRefused")
    assert patched(look(document, around, NOW + 11))["state"]["phase"] == "Failed"
    around.refusals = {"a": Refused("exceeded quota", NOW + 10, False)}
    assert patched(look(document, around))["state"]["phase"] == "Pending"


@pytest.mark.parametrize("status", ["nonsense", [], {"jobStatusList": "x", "conditions": 3, "state": None}])
def test_a_status_that_makes_no_sense_stops_nothing(status: Any) -> None:
    assert created(look(flow("a", status=status), Around("a"))) == ["f-a"]


# -- failures and retries


def test_after_a_failure_nothing_new_begins_and_the_flow_has_failed() -> None:
    around = Around("a", "b", "c", jobs={"f-a": job("a", "Failed"), "f-b": job("b", "Running")})
    outcome = look(flow("a", "b", "c"), around)
    assert created(outcome) == []
    state = patched(outcome)["state"]
    assert state == {"phase": "Failed", "reason": "StepFailed", "message": "Job f-a has failed"}


def _failing(document: FlowDocument, around: Around, now: float, attempt: int) -> FlowDocument:
    around.jobs["f-a"] = job("a", "Failed", attempt=attempt)
    outcome = look(document, around, now)
    assert deleted(outcome) == []  # first it is written down
    return written(document, outcome)


def test_a_step_that_failed_is_made_again_so_many_times_and_waits_longer_each_time() -> None:
    document = flow("a", annotations={"allhands.dev/flow-retries": "2"})
    around = Around("a")
    document = _failing(document, around, NOW, 0)
    assert document.written["state"] == {
        "phase": "Running",
        "reason": "Retrying",
        "message": "Job f-a has failed once and is made again",
    }
    early = look(document, around, NOW + 9)
    assert (deleted(early), early.outcome.wake_at_seconds) == ([], NOW + 10)
    assert deleted(look(document, around, NOW + 10)) == ["f-a"]
    del around.jobs["f-a"]
    outcome = look(document, around, NOW + 11)
    (creation,) = [it for it in outcome.outcome.instructions if isinstance(it, Create)]
    assert creation.manifest["metadata"]["annotations"]["allhands.dev/flow-attempt"] == "1"
    document = _failing(document, around, NOW + 12, 1)  # nobody saw it run
    assert document.written["jobStatusList"][0]["restartCount"] == 1
    assert look(document, around, NOW + 20).outcome.wake_at_seconds == NOW + 32
    del around.jobs["f-a"]
    assert created(look(document, around, NOW + 32)) == ["f-a"]
    document = _failing(document, around, NOW + 40, 2)
    assert document.phase == "Failed"
    assert deleted(look(document, around, NOW + 9999)) == []


def test_a_template_may_say_its_own_number_of_retries() -> None:
    document = flow("a", annotations={"allhands.dev/flow-retries": "5"})
    around = Around()
    around.templates["a"] = _template("a", **{"flow-retries": "0"})
    around.jobs["f-a"] = job("a", "Terminated")
    assert patched(look(document, around))["state"]["phase"] == "Failed"


@pytest.mark.parametrize("text", ["many", "-1", "101", "99999999999999999999"])
def test_a_number_of_retries_that_is_none_is_told(text: str) -> None:
    document = flow("a", annotations={"allhands.dev/flow-retries": text})
    state = patched(look(document, Around("a")))["state"]
    assert state["reason"] == "InvalidAnnotation"
    assert state["message"] == f'annotation allhands.dev/flow-retries of f: "{text}" is no number from 0 to 100'


def test_raising_the_number_of_retries_takes_a_failed_flow_on() -> None:
    around = Around("a", jobs={"f-a": job("a", "Failed")})
    document = written(flow("a"), look(flow("a"), around))
    assert document.phase == "Failed"
    raised = msgspec.structs.replace(flow("a", annotations={"allhands.dev/flow-retries": "1"}), status=document.status)
    assert deleted(look(raised, around, NOW + 10)) == ["f-a"]


# -- the end


def test_a_flow_without_steps_has_succeeded() -> None:
    assert patched(look(flow(), Around()))["state"] == {"phase": "Succeed"}


def test_jobs_that_are_not_retained_go_once_the_status_says_that_all_is_well() -> None:
    document = flow("a", jobRetainPolicy="delete")
    around = Around("a", jobs={"f-a": job("a", "Completed", runningDuration="1m30s")})
    outcome = look(document, around)
    assert deleted(outcome) == []
    assert patched(outcome)["state"] == {"phase": "Succeed"}
    document = written(document, outcome)
    assert deleted(look(document, around)) == ["f-a"]
    del around.jobs["f-a"]
    assert look(document, around).outcome.instructions == ()


@pytest.mark.parametrize("policy", ["retain", None])
def test_jobs_that_are_retained_stay(policy: str | None) -> None:
    document = flow("a", jobRetainPolicy=policy)
    around = Around("a", jobs={"f-a": job("a", "Completed")})
    document = written(document, look(document, around))
    assert look(document, around).outcome.instructions == ()


def test_a_flow_that_is_deleted_begins_nothing_and_says_so() -> None:
    outcome = look(flow("a", "b", going=True), Around("a", "b", jobs={"f-a": job("a", "Completed")}))
    assert created(outcome) == deleted(outcome) == []
    assert patched(outcome)["state"] == {"phase": "Terminating"}


# -- the status


def test_every_job_is_in_the_list_of_its_phase() -> None:
    phases = {
        "a": "Pending",
        "b": "Running",
        "c": "Completed",
        "d": "Completing",
        "e": "Aborted",
        "g": "Restarting",
        "h": "",
    }
    jobs = {f"f-{step}": job(step, phase) for step, phase in phases.items()}
    status = patched(look(flow(*phases), Around(*phases, jobs=jobs)))
    assert status["pendingJobs"] == ["f-a", "f-h"]
    assert status["runningJobs"] == ["f-b"]
    assert status["completedJobs"] == ["f-c"]
    assert status["unKnowJobs"] == ["f-e", "f-g"]
    assert [it["name"] for it in status["jobStatusList"]] == sorted(jobs)
    assert status["state"] == {"phase": "Running"}
    assert "failedJobs" not in status


def test_an_entry_tells_the_story_of_its_job() -> None:
    document = flow("a")
    around = Around("a")
    for seconds, phase in enumerate(("Pending", "Running", "Running", "Completed")):
        more: dict[str, Any] = {"runningDuration": "1m5s", "retryCount": 2} if phase == "Completed" else {}
        around.jobs["f-a"] = job("a", phase, running=2, **more)
        document = written(document, look(document, around, NOW + seconds))
    (entry,) = document.written["jobStatusList"]
    assert entry == {
        "name": "f-a",
        "state": "Completed",
        "startTimestamp": "2026-01-31T11:59:00Z",
        "endTimestamp": "2026-01-31T12:00:05Z",
        "restartCount": 2,
        "runningHistories": [
            {"startTimestamp": "2026-01-31T12:00:00Z", "endTimestamp": "2026-01-31T12:00:01Z", "state": "Pending"},
            {"startTimestamp": "2026-01-31T12:00:01Z", "endTimestamp": "2026-01-31T12:00:03Z", "state": "Running"},
            {"startTimestamp": "2026-01-31T12:00:03Z", "state": "Completed"},
        ],
    }
    assert document.written["conditions"]["f-a"] == {
        "phase": "Completed",
        "createTime": "2026-01-31T11:59:00Z",
        "runningDuration": "1m5s",
        "taskStatusCount": {"web": {"phase": {"Running": 2}}},
    }


def test_a_job_that_goes_to_and_fro_does_not_fill_the_status() -> None:
    document = flow("a")
    around = Around("a")
    for seconds in range(100):
        around.jobs["f-a"] = job("a", "Running" if seconds % 2 else "Pending")
        document = written(document, look(document, around, NOW + seconds))
    assert len(document.written["jobStatusList"][0]["runningHistories"]) == 20


def test_what_pods_do_is_gathered_and_a_phase_is_told_at_once() -> None:
    document = flow("a")
    around = Around("a", jobs={"f-a": job("a", "Running", running=1)})
    document = written(document, look(document, around))
    around.jobs["f-a"] = job("a", "Running", running=2)
    gathering = look(document, around, NOW + 0.25, written_at_seconds=NOW)
    assert (patched(gathering), gathering.outcome.wake_at_seconds, gathering.gathers) == ({}, NOW + 1, True)
    around.jobs["f-a"] = job("a", "Completed")
    assert patched(look(document, around, NOW + 0.25, written_at_seconds=NOW))["state"]["phase"] == "Succeed"


def test_once_all_is_told_nothing_is_written() -> None:
    document = flow("a", after("b", "a"))
    around = Around("a", "b", jobs={"f-a": job("a", "Running", running=2)})
    document = written(document, look(document, around))
    assert look(document, around, NOW + 100).outcome.instructions == ()


def test_a_chain_of_ten_thousand_steps_takes_no_recursion_and_time_that_grows_with_it() -> None:
    def seconds_for(size: int) -> float:
        names = [f"s{number}" for number in range(size)]
        document = flow(names[0], *(after(name, before) for before, name in itertools.pairwise(names)))
        jobs = {f"f-{name}": job(name, "Completed") for name in names[:-1]}
        around = Around(*names, jobs=jobs)
        plan = plan_of(document.spec)
        began = time.process_time()
        outcome = reconcile(document, plan, around, NOW)
        took = time.process_time() - began
        assert created(outcome) == [f"f-{names[-1]}"]
        return took

    seconds_for(100)
    assert seconds_for(10_000) < 60 * max(0.001, min(seconds_for(1_000) for _ in range(3)))
