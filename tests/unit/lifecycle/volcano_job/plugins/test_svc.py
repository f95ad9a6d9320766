"""svc: a name for every pod, and all names for every pod, as files and as variables."""

from __future__ import annotations

from allhands.lifecycle.volcano_job.plugins.catalog import plugin_errors
from tests.plugin_jobs import bare_pod, companions, equip, equipped, job, task

LABELS = {"volcano.sh/job-name": "job", "volcano.sh/job-namespace": "default"}


def test_a_service_a_list_of_hosts_and_a_policy_are_made_beside_the_pods() -> None:
    made = companions(job({"svc": []}, task("ps"), task("big-worker", 2)))
    found = {it.manifest["kind"]: it for it in made}
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "job", "uid": "7"}
    for it in made:
        assert it.manifest["metadata"]["ownerReferences"] == [owner | {"controller": True, "blockOwnerDeletion": True}]
        assert it.manifest["metadata"]["namespace"] == "default"
    assert found["Service"].manifest["metadata"]["name"] == "job"
    assert found["Service"].manifest["spec"] == {"clusterIP": "None", "selector": LABELS}
    assert found["ConfigMap"].manifest["metadata"]["name"] == "job-svc"
    assert found["ConfigMap"].manifest["data"] == {
        "ps.host": "job-ps-0.job",
        "VC_PS_HOSTS": "job-ps-0.job",
        "VC_PS_NUM": "1",
        "big_worker.host": "job-big-worker-0.job\njob-big-worker-1.job",
        "VC_BIG_WORKER_HOSTS": "job-big-worker-0.job,job-big-worker-1.job",
        "VC_BIG_WORKER_NUM": "2",
    }
    own = {"matchLabels": LABELS}
    assert found["NetworkPolicy"].manifest["metadata"]["name"] == "job"
    assert found["NetworkPolicy"].manifest["spec"] == {
        "podSelector": own,
        "ingress": [{"from": [{"podSelector": own}]}],
        "policyTypes": ["Ingress"],
    }
    assert [it.manifest["kind"] for it in made if it.keeps_up] == ["ConfigMap"]


def test_flags_leave_the_policy_out_and_show_pods_that_are_not_ready() -> None:
    made = companions(job({"svc": ["--disable-network-policy", "--publish-not-ready-addresses=true"]}, task("a")))
    assert [it.manifest["kind"] for it in made] == ["ConfigMap", "Service"]
    assert made[1].manifest["spec"]["publishNotReadyAddresses"] is True


def test_a_pod_gets_its_name_the_variables_and_the_files() -> None:
    initial = [{"name": "first", "image": "none"}]
    pod = equipped(job({"svc": []}, task("a", 2, initContainers=initial), task("b")), "a", 1)
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("job-a-1", "job")
    assert pod["spec"]["volumes"] == [{"name": "job-svc", "configMap": {"name": "job-svc"}}]
    for container in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
        assert container["volumeMounts"] == [{"name": "job-svc", "mountPath": "/etc/volcano"}]
        assert [it["name"] for it in container["env"]] == ["VC_A_HOSTS", "VC_A_NUM", "VC_B_HOSTS", "VC_B_NUM"]
        source = {"configMapKeyRef": {"name": "job-svc", "key": "VC_A_HOSTS"}}
        assert container["env"][0]["valueFrom"] == source


def test_without_the_variables_the_files_are_still_there() -> None:
    pod = equipped(job({"svc": ["--inject-hosts-env=false"]}, task("a")), "a")
    assert "env" not in pod["spec"]["containers"][0]
    assert pod["spec"]["containers"][0]["volumeMounts"]


def test_a_hostname_of_the_template_stands_and_is_the_only_host() -> None:
    made = job({"svc": []}, task("a", 3, hostname="fixed", subdomain="elsewhere"))
    pod = equipped(made, "a", 2)
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("fixed", "elsewhere")
    data = companions(made)[0].manifest["data"]
    assert data == {"a.host": "fixed.elsewhere", "VC_A_HOSTS": "fixed.elsewhere", "VC_A_NUM": "1"}


def test_what_the_user_mounts_there_stands() -> None:
    own = {"name": "main", "image": "none", "volumeMounts": [{"name": "mine", "mountPath": "/etc/volcano/"}]}
    pod = equipped(job({"svc": []}, task("a", containers=[own])), "a")
    assert pod["spec"]["containers"][0]["volumeMounts"] == own["volumeMounts"]


def test_a_list_that_no_program_could_start_with_is_only_in_the_files() -> None:
    made = job({"svc": []}, task("few"), task("many", 10_000))
    assert plugin_errors(made) == []
    names = [it["name"] for it in equipped(made, "many", 9_999)["spec"]["containers"][0]["env"]]
    assert names == ["VC_FEW_HOSTS", "VC_FEW_NUM", "VC_MANY_NUM"]
    assert len(companions(made)[0].manifest["data"]["many.host"].splitlines()) == 10_000


def test_more_hosts_than_a_config_map_holds_are_refused() -> None:
    told = [str(it) for it in plugin_errors(job({"svc": []}, task("a", 100_000)))]
    assert len(told) == 1
    assert told[0].startswith('spec.plugins[svc]: Invalid value: "svc": the names of 100000 pods take')
    assert told[0].endswith("and a ConfigMap holds 1048576")


def test_names_that_make_no_host_are_refused() -> None:
    dotted = [str(it) for it in plugin_errors(job({"svc": []}, task("a"), name="a.b"))]
    assert len(dotted) == 1
    assert "the Job's name 'a.b' cannot be that of a Service" in dotted[0]
    long = [str(it) for it in plugin_errors(job({"svc": []}, task("b" * 20, 11), name="a" * 40))]
    assert len(long) == 1
    assert f"the pod's name '{'a' * 40}-{'b' * 20}-10' cannot be a host name" in long[0]


def test_the_template_is_left_as_it_was() -> None:
    made = job({"svc": [], "env": [], "ssh": []}, task("a"))
    shared = bare_pod(made, "a")
    template = {**shared["spec"]}
    before = repr(template)
    equip(made, {**shared, "spec": template})
    assert repr(template) == before


def test_a_task_without_a_name_goes_by_its_place() -> None:
    unnamed = task("b", 2)
    del unnamed["name"]
    made = job({"svc": []}, task("a"), unnamed)
    assert companions(made)[0].manifest["data"]["default1.host"] == "job-default1-0.job\njob-default1-1.job"
