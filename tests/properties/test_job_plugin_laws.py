"""Laws of all job plugins, whatever the Job: a user's own stands, twice is once, nobody needs what is not there."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allhands.lifecycle.volcano_job.plugins.catalog import names, plugin_errors, plugins_of
from tests.depth import examples
from tests.plugin_jobs import all_pods, bare_pod, companions, environment, equip, job, task

Manifest = dict[str, Any]

VARIABLES = ("VC_TASK_INDEX", "RANK", "MASTER_ADDR", "TF_CONFIG", "MPI_HOST", "JAX_PROCESS_ID", "VC_WORKER_NUM")
PATHS = ("/etc/volcano", "/etc/ssh", "/etc", "/etc/horovod", "/data")
ROLES = ("master", "worker", "head", "ps", "chief", "other")

variables = st.lists(st.sampled_from(VARIABLES), unique=True, max_size=3).map(
    lambda names: [{"name": name, "value": "mine"} for name in names]
)
mounts = st.lists(st.sampled_from(PATHS), unique=True, max_size=2).map(
    lambda paths: [{"name": "mine", "mountPath": path} for path in paths]
)
ports = st.lists(st.sampled_from([22, 2222, 6379, 23456, 1]), unique=True, max_size=2).map(
    lambda numbers: [{"name": f"p-{number}", "containerPort": number} for number in numbers]
)


@st.composite
def containers(draw: st.DrawFn) -> list[Manifest]:
    found = []
    for name in draw(st.lists(st.sampled_from(["main", "head", "worker"]), unique=True, min_size=1, max_size=2)):
        container: Manifest = {"name": name, "image": "none"}
        for field, values in (("env", variables), ("volumeMounts", mounts), ("ports", ports)):
            if draw(st.booleans()):
                container[field] = draw(values)
        if draw(st.booleans()):
            container["command"] = ["mine"]
        found.append(container)
    return found


@st.composite
def jobs(draw: st.DrawFn) -> Any:
    plugins: dict[str, list[str]] = {name: [] for name in draw(st.sets(st.sampled_from(names()), min_size=1))}
    if draw(st.booleans()):
        plugins["svc"] = draw(st.sampled_from([["--inject-hosts-env=false"], ["--disable-network-policy"], ["--bad"]]))
    tasks = []
    for name in draw(st.lists(st.sampled_from(ROLES), unique=True, min_size=1, max_size=4)):
        more: Manifest = {"volumes": [{"name": "mine", "emptyDir": {}}]}
        if draw(st.booleans()):
            more["initContainers"] = draw(containers())
        if draw(st.booleans()):
            more["hostname"] = "fixed"
        tasks.append(task(name, draw(st.integers(0, 3)), containers=draw(containers()), **more))
    return job(plugins, *tasks)


@settings(max_examples=examples(40))
@given(jobs())
def test_what_the_user_wrote_stands_and_twice_is_once(made: Any) -> None:
    for spec in made.spec.tasks:
        pod = bare_pod(made, spec.name)
        before = copy.deepcopy(pod)
        equip(made, pod)
        once = copy.deepcopy(pod)
        equip(made, pod)
        assert pod == once
        _kept(before, pod)


def _kept(before: Manifest, after: Manifest) -> None:
    for field in ("containers", "initContainers"):
        originals = before["spec"].get(field) or []
        for own, now in zip(originals, after["spec"].get(field) or [], strict=False):
            assert now["name"] == own["name"]
            assert now.get("command") == own["command"] if "command" in own else True
            for part in ("env", "volumeMounts", "ports"):
                assert (now.get(part) or [])[: len(own.get(part) or [])] == (own.get(part) or [])
            assert _unique(it["name"] for it in now.get("env") or ())
            assert _unique(it["mountPath"] for it in now.get("volumeMounts") or ())
            assert _unique(it["containerPort"] for it in now.get("ports") or ())
    assert after["spec"]["volumes"][: len(before["spec"]["volumes"])] == before["spec"]["volumes"]
    assert _unique(it["name"] for it in after["spec"]["volumes"])
    assert before["metadata"]["labels"] == after["metadata"]["labels"]
    assert before["metadata"]["annotations"].items() <= after["metadata"]["annotations"].items()


def _unique(values: Any) -> bool:
    found = list(values)
    return len(found) == len(set(found))


@settings(max_examples=examples(40))
@given(jobs())
def test_everything_that_a_pod_refers_to_is_made_before_it(made: Any) -> None:
    made_objects = {(it.manifest["kind"], it.manifest["metadata"]["name"]): it.manifest for it in companions(made)}
    for pod in all_pods(made):
        for volume in pod["spec"]["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in made_objects
            if "secret" in volume:
                secret = made_objects["Secret", volume["secret"]["secretName"]]
                assert {it["key"] for it in volume["secret"]["items"]} <= set(secret["data"])
        for container in pod["spec"]["containers"]:
            for variable in container.get("env") or ():
                if "valueFrom" in variable:
                    source = variable["valueFrom"]["configMapKeyRef"]
                    assert source["key"] in made_objects["ConfigMap", source["name"]]["data"]


@settings(max_examples=examples(40))
@given(jobs())
def test_ranks_of_a_job_are_each_there_once(made: Any) -> None:
    for plugin, rank, size in (("pytorch", "RANK", "WORLD_SIZE"), ("jax", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES")):
        if plugin not in made.spec.plugins:
            continue
        given = [environment(pod) for pod in all_pods(made) if "mine" not in environment(pod).values()]
        ranks = [int(it[rank]) for it in given if rank in it]
        assert _unique(ranks)
        assert all(number < int(it[size]) for it in given if rank in it for number in [int(it[rank])])


@settings(max_examples=examples(40))
@given(jobs())
def test_a_job_that_is_refused_is_told_where_and_breaks_nothing(made: Any) -> None:
    assert all(str(it).startswith("spec.plugins[") for it in plugin_errors(made))
    assert plugins_of(made) == plugins_of(made)
