"""The environment that each framework's own documents ask for, read the way the framework reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allhands.lifecycle.volcano_job.plugins.catalog import plugin_errors
from tests.plugin_jobs import all_pods, companions, environment, equipped, job, task

TENSORFLOW_TYPES = ("chief", "worker", "evaluator", "ps")


def told(plugins: dict[str, list[str]], *tasks: dict[str, Any]) -> list[str]:
    return [str(it) for it in plugin_errors(job(plugins, *tasks))]


# -- env


def test_env_tells_every_container_its_index() -> None:
    pod = equipped(job({"env": []}, task("a", 8, initContainers=[{"name": "first", "image": "none"}])), "a", 7)
    for container in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
        assert container["env"] == [{"name": "VK_TASK_INDEX", "value": "7"}, {"name": "VC_TASK_INDEX", "value": "7"}]


def test_a_variable_of_the_user_stands() -> None:
    own = {"name": "main", "image": "none", "env": [{"name": "VC_TASK_INDEX", "value": "mine"}]}
    pod = equipped(job({"env": []}, task("a", containers=[own])), "a", 3)
    assert environment(pod) == {"VC_TASK_INDEX": "mine", "VK_TASK_INDEX": "3"}


# -- pytorch: torch.distributed.init_process_group(init_method="env://")


def torch_reads(pod: dict[str, Any]) -> tuple[str, int, int, int]:
    """Address, port, size and rank, as the env rendezvous takes them: all four must be there."""
    given = environment(pod)
    rank, size = int(given["RANK"]), int(given["WORLD_SIZE"])
    assert 0 <= rank < size
    return given["MASTER_ADDR"], int(given["MASTER_PORT"]), size, rank


def test_torch_finds_its_master_and_every_rank_is_there_once() -> None:
    pods = all_pods(job({"pytorch": []}, task("master"), task("worker", 3)))
    assert [torch_reads(pod) for pod in pods] == [("job-master-0.job", 23456, 4, rank) for rank in range(4)]
    assert pods[0]["spec"]["containers"][0]["ports"] == [{"name": "pytorchjob-port", "containerPort": 23456}]
    assert pods[0]["spec"]["hostname"] == "job-master-0", "svc comes with it"


def test_without_a_master_the_first_worker_leads() -> None:
    pods = all_pods(job({"pytorch": ["--port=5"]}, task("worker", 2)))
    assert [torch_reads(pod) for pod in pods] == [("job-worker-0.job", 5, 2, rank) for rank in range(2)]


def test_several_masters_have_ranks_of_their_own() -> None:
    pods = all_pods(job({"pytorch": ["--master=m", "--worker=w"]}, task("w", 2), task("m", 2)))
    assert sorted(torch_reads(pod)[3] for pod in pods) == [0, 1, 2, 3]
    assert torch_reads(equipped(job({"pytorch": []}, task("worker"), task("master")), "master"))[3] == 0


def test_a_pod_of_another_task_is_told_all_but_a_rank() -> None:
    made = job({"pytorch": []}, task("master"), task("worker", 2), task("board"))
    given = environment(equipped(made, "board"))
    assert given == {"MASTER_ADDR": "job-master-0.job", "MASTER_PORT": "23456", "WORLD_SIZE": "3"}


def test_workers_wait_for_the_master_if_asked_to() -> None:
    made = job({"pytorch": ["--wait-master-enabled", "--wait-master-image=small"]}, task("master"), task("worker"))
    assert "initContainers" not in equipped(made, "master")["spec"]
    waiting = equipped(made, "worker")["spec"]["initContainers"]
    assert [(it["name"], it["image"]) for it in waiting] == [("wait-for-master", "small")]
    assert "nc -z job-master-0.job 23456" in waiting[0]["command"][2]


def test_a_job_with_neither_task_is_refused() -> None:
    refused = "spec.plugins[pytorch]: Invalid value: \"pytorch\": no task is called 'master' or 'worker'"
    hint = "the tasks are a, b; name them by --master and --worker"
    assert told({"pytorch": []}, task("a"), task("b")) == [f"{refused}; {hint}"]


def test_a_port_that_is_open_stays_as_it_is() -> None:
    own = {"name": "main", "image": "none", "ports": [{"name": "mine", "containerPort": 23456}]}
    pod = equipped(job({"pytorch": []}, task("worker", containers=[own])), "worker")
    assert pod["spec"]["containers"][0]["ports"] == own["ports"]
    taken = {"name": "main", "image": "none", "ports": [{"name": "pytorchjob-port", "containerPort": 1}]}
    pod = equipped(job({"pytorch": []}, task("worker", containers=[taken])), "worker")
    assert pod["spec"]["containers"][0]["ports"] == [*taken["ports"], {"containerPort": 23456}]


# -- tensorflow: tf.distribute.cluster_resolver.TFConfigClusterResolver


def tensorflow_reads(pod: dict[str, Any]) -> tuple[dict[str, list[str]], str, int]:
    """As the resolver and the strategies' checks read TF_CONFIG: the task must be one of the cluster."""
    config = json.loads(environment(pod)["TF_CONFIG"])
    cluster, kind, index = config["cluster"], config["task"]["type"], config["task"]["index"]
    assert set(cluster) <= set(TENSORFLOW_TYPES)
    assert isinstance(index, int)
    assert index < len(cluster[kind])
    return cluster, kind, index


def test_tensorflow_finds_its_cluster_and_its_own_place() -> None:
    made = job({"tensorflow": []}, task("ps"), task("worker", 2), task("chief"), task("evaluator"))
    cluster = {
        "ps": ["job-ps-0.job:2222"],
        "worker": ["job-worker-0.job:2222", "job-worker-1.job:2222"],
        "chief": ["job-chief-0.job:2222"],
        "evaluator": ["job-evaluator-0.job:2222"],
    }
    places = [("ps", 0), ("worker", 0), ("worker", 1), ("chief", 0), ("evaluator", 0)]
    assert [tensorflow_reads(pod) for pod in all_pods(made)] == [(cluster, *place) for place in places]


def test_tasks_of_other_names_play_the_roles_that_flags_give_them() -> None:
    made = job({"tensorflow": ["--ps=server", "--worker=trainer", "--port=1"]}, task("server"), task("trainer"))
    assert tensorflow_reads(equipped(made, "trainer")) == (
        {"ps": ["job-server-0.job:1"], "worker": ["job-trainer-0.job:1"]}, "worker", 0,
    )  # fmt: skip


def test_a_single_pod_and_a_pod_without_a_role_get_no_configuration() -> None:
    assert environment(equipped(job({"tensorflow": []}, task("worker")), "worker")) == {}
    made = job({"tensorflow": []}, task("worker", 2), task("board"))
    assert environment(equipped(made, "board")) == {}
    assert told({"tensorflow": []}, task("only")) == []


def test_a_job_without_any_role_and_one_with_too_many_hosts_are_refused() -> None:
    assert (
        "no task is called any of ps, worker, chief, evaluator; the tasks are a, b"
        in told({"tensorflow": []}, task("a"), task("b"))[0]
    )
    assert "TF_CONFIG would have" in told({"tensorflow": []}, task("worker", 10_000))[0]


# -- jax: jax.distributed.initialize(num_processes=int(...), process_id=int(...))


def test_jax_has_one_coordinator_and_every_process_is_there_once() -> None:
    pods = all_pods(job({"jax": []}, task("worker", 3)))
    for index, pod in enumerate(pods):
        assert environment(pod) == {
            "JAX_COORDINATOR_ADDRESS": "job-worker-0.job:8476",
            "JAX_COORDINATOR_PORT": "8476",
            "JAX_NUM_PROCESSES": "3",
            "JAX_PROCESS_ID": str(index),
        }
    assert [bool(pod["spec"]["containers"][0].get("ports")) for pod in pods] == [True, False, False]


def test_jax_counts_the_master_first_and_leaves_others_out() -> None:
    made = job({"jax": ["--port=77"]}, task("worker", 2), task("master"), task("board"))
    assert environment(equipped(made, "worker", 1))["JAX_PROCESS_ID"] == "2"
    assert environment(equipped(made, "worker", 1))["JAX_COORDINATOR_ADDRESS"] == "job-master-0.job:77"
    assert environment(equipped(made, "board")) == {}
    assert "no task is called 'master' or 'worker'" in told({"jax": []}, task("a"))[0]


# -- mpi


def test_mpi_tells_the_master_its_hosts() -> None:
    made = job({"mpi": []}, task("master"), task("worker", 2))
    assert environment(equipped(made, "master")) == {"MPI_HOST": "job-worker-0.job,job-worker-1.job"}
    assert environment(equipped(made, "worker")) == {}
    for name in ("master", "worker"):
        assert equipped(made, name)["spec"]["containers"][0]["ports"] == [{"name": "mpijob-port", "containerPort": 22}]
    assert {it.manifest["kind"] for it in companions(made)} == {"Service", "ConfigMap", "NetworkPolicy", "Secret"}


def test_workers_of_any_name_are_hosts_and_a_master_alone_is_its_own() -> None:
    assert environment(equipped(job({"mpi": []}, task("master"), task("a"), task("b", 1)), "master")) == {
        "MPI_HOST": "job-a-0.job,job-b-0.job"
    }
    assert environment(equipped(job({"mpi": []}, task("master")), "master")) == {"MPI_HOST": "job-master-0.job"}


def test_mpi_without_its_master_is_refused() -> None:
    assert told({"mpi": ["--master=boss"]}, task("master")) == [
        "spec.plugins[mpi]: Invalid value: \"mpi\": no task is called 'boss'; the tasks are master; name it by --master"
    ]


# -- horovod


def test_horovod_by_ssh_tells_the_master_what_horovodrun_takes() -> None:
    made = job({"horovod": ["--slots=4"]}, task("master"), task("worker", 2))
    pod = equipped(made, "master")
    assert environment(pod) == {"HOROVOD_HOSTS": "job-worker-0.job:4,job-worker-1.job:4", "HOROVOD_NP": "8"}
    assert {"name": "job-horovod", "mountPath": "/etc/horovod"} in pod["spec"]["containers"][0]["volumeMounts"]
    assert {"name": "job-horovod", "configMap": {"name": "job-horovod", "defaultMode": 0o555}} in pod["spec"]["volumes"]
    assert environment(equipped(made, "worker")) == {}
    beside = {it.manifest["metadata"]["name"]: it for it in companions(made)}
    assert beside["job-horovod"].keeps_up
    data = beside["job-horovod"].manifest["data"]
    assert data["hostfile"] == "job-worker-0.job slots=4\njob-worker-1.job slots=4\n"
    assert data["discover_hosts.sh"].startswith("#!/bin/sh\n")
    assert "\njob-worker-0.job:4\njob-worker-1.job:4\n" in data["discover_hosts.sh"]
    assert "job-ssh" in beside


def test_horovod_by_gloo_tells_every_worker_who_it_is() -> None:
    made = job({"horovod": ["--launch=gloo"]}, task("worker", 3))
    for index in range(3):
        given = environment(equipped(made, "worker", index))
        given.pop("HOROVOD_HOSTS")
        assert given == {
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "job-worker-0.job",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": "29400",
            "HOROVOD_HOSTNAME": f"job-worker-{index}.job",
            "HOROVOD_RANK": str(index),
            "HOROVOD_SIZE": "3",
            "HOROVOD_LOCAL_RANK": "0",
            "HOROVOD_LOCAL_SIZE": "1",
            "HOROVOD_CROSS_RANK": str(index),
            "HOROVOD_CROSS_SIZE": "3",
        }
    assert {it.manifest["kind"] for it in companions(made)} == {"Service", "ConfigMap", "NetworkPolicy"}, "no ssh"


def test_horovod_without_its_tasks_or_with_too_many_slots_is_refused() -> None:
    assert len(told({"horovod": []}, task("a"))) == 2
    assert told({"horovod": ["--launch=gloo"]}, task("worker")) == []
    assert "--slots must be 1" in told({"horovod": ["--launch=gloo", "--slots=2"]}, task("worker"))[0]


# -- ray

HEAD = (
    "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 --ray-client-server-port=10001"
)


def test_ray_starts_its_head_and_workers_join_it() -> None:
    own = [{"name": "worker", "image": "none"}, {"name": "log", "image": "none"}]
    made = job({"ray": []}, task("head"), task("worker", 2, containers=own))
    head = equipped(made, "head")["spec"]["containers"][0]
    assert head["command"] == ["sh", "-c", HEAD]
    assert head["ports"] == [
        {"name": "gcs", "containerPort": 6379},
        {"name": "dashboard", "containerPort": 8265},
        {"name": "client-server", "containerPort": 10001},
    ]
    worker, log = equipped(made, "worker", 1)["spec"]["containers"]
    assert worker["command"] == ["sh", "-c", "ray start --block --address=job-head-0.job:6379"]
    assert "command" not in log


def test_a_service_leads_to_the_head_of_ray() -> None:
    made = companions(job({"ray": ["--dashboardPort=80"]}, task("head"), task("worker")))
    service = next(it.manifest for it in made if it.manifest["metadata"]["name"] == "job-head-svc")
    assert service["spec"]["selector"]["volcano.sh/task-spec"] == "head"
    assert [(it["name"], it["port"], it["targetPort"]) for it in service["spec"]["ports"]] == [
        ("gcs", 6379, 6379), ("dashboard", 80, 80), ("client-server", 10001, 10001),
    ]  # fmt: skip


@pytest.mark.parametrize("field", ["command", "args"])
def test_a_command_of_the_user_stands(field: str) -> None:
    own = [{"name": "head", "image": "none", field: ["mine"]}]
    head = equipped(job({"ray": []}, task("head", containers=own)), "head")["spec"]["containers"][0]
    assert head[field] == ["mine"]
    assert ("command" in head) == (field == "command")


def test_ray_without_one_head_or_without_a_container_to_run_in_is_refused() -> None:
    assert "no task is called 'head'; the tasks are worker; name it by --head" in told({"ray": []}, task("worker"))[0]
    assert "has 2 replicas; a Ray cluster has one head" in told({"ray": []}, task("head", 2))[0]
    two = [{"name": "a", "image": "none"}, {"name": "b", "image": "none"}]
    assert "has several containers and none is called 'head'" in told({"ray": []}, task("head", containers=two))[0]
    assert told({"ray": ["--headContainer=b"]}, task("head", containers=two)) == []


# -- hcclrank


def test_hcclrank_numbers_masters_first_and_takes_a_rank_that_is_there() -> None:
    made = job({"hcclrank": []}, task("master", 2), task("worker", 2), task("board"))
    ranks = [pod["metadata"]["annotations"].get("hccl/rankIndex") for pod in all_pods(made)]
    assert ranks == ["0", "1", "2", "3", None]
    with_torch = job({"hcclrank": [], "pytorch": []}, task("worker", 2))
    assert equipped(with_torch, "worker", 1)["metadata"]["annotations"]["hccl/rankIndex"] == "1"
    own = [{"name": "main", "image": "none", "env": [{"name": "RANK", "value": "9"}]}]
    given = equipped(job({"hcclrank": []}, task("worker", containers=own)), "worker")
    assert given["metadata"]["annotations"]["hccl/rankIndex"] == "9"
