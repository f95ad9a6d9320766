"""What the server fills into pods and pod templates, and what it decides when a pod is born."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allhands.api.builtin.pod_defaults import pull_policy_for
from allhands.api.builtin.pods import RULES, qos_class
from allhands.api.builtin.podspec import default_pod_spec, default_pod_template
from tests.unit.api.rule_samples import container, pod, pod_of, prepared

POD = RULES["Pod"]


def at(document: Any, path: str) -> Any:
    for step in path.split("."):
        document = document[int(step)] if step.isdigit() else document[step]
    return document


SPEC_DEFAULTS = [
    pytest.param({}, "dnsPolicy", "ClusterFirst", id="the DNS policy is ClusterFirst"),
    pytest.param({}, "restartPolicy", "Always", id="pods restart always"),
    pytest.param({}, "securityContext", {}, id="there is always a security context"),
    pytest.param({}, "terminationGracePeriodSeconds", 30, id="pods get thirty seconds to end"),
    pytest.param({}, "schedulerName", "default-scheduler", id="the default scheduler is named"),
    pytest.param({}, "containers.0.imagePullPolicy", "IfNotPresent", id="a tagged image is pulled once"),
    pytest.param({}, "containers.0.terminationMessagePath", "/dev/termination-log", id="the last words have a path"),
    pytest.param({}, "containers.0.terminationMessagePolicy", "File", id="the last words come from a file"),
    pytest.param({"serviceAccountName": "robot"}, "serviceAccount", "robot", id="the account's old name is shown too"),
    pytest.param({"serviceAccount": "robot"}, "serviceAccountName", "robot", id="the account's old name is understood"),
    pytest.param(
        {"containers": [container(ports=[{"containerPort": 80}])]},
        "containers.0.ports.0.protocol",
        "TCP",
        id="ports speak TCP",
    ),
    pytest.param(
        {"containers": [container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])]},
        "containers.0.env.0.valueFrom.fieldRef.apiVersion",
        "v1",
        id="a field reference is of version v1",
    ),
    pytest.param(
        {"containers": [container(livenessProbe={"httpGet": {"port": 80}})]},
        "containers.0.livenessProbe",
        {
            "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
            "timeoutSeconds": 1,
            "periodSeconds": 10,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
        id="a probe asks for the root every ten seconds",
    ),
    pytest.param(
        {"containers": [container(startupProbe={"grpc": {"port": 80}})]},
        "containers.0.startupProbe.grpc.service",
        "",
        id="a grpc probe asks for the nameless service",
    ),
    pytest.param(
        {"containers": [container(lifecycle={"preStop": {"httpGet": {"port": 80}}})]},
        "containers.0.lifecycle.preStop.httpGet.path",
        "/",
        id="a hook calls the root",
    ),
    pytest.param(
        {"containers": [container(lifecycle={"stopSignal": "SIGUSR1", "preStop": {"sleep": {"seconds": 1}}})]},
        "containers.0.lifecycle",
        {"preStop": {"sleep": {"seconds": 1}}},
        id="a stop signal is forgotten because its feature is off",
    ),
    pytest.param(
        {"containers": [container(resources={"requests": {"cpu": "100u", "memory": "1Gi"}})]},
        "containers.0.resources.requests",
        {"cpu": "1m", "memory": "1Gi"},
        id="amounts are rounded up to thousandths",
    ),
    pytest.param({"overhead": {"cpu": "1500001u"}}, "overhead.cpu", "1501m", id="overhead is rounded up too"),
    pytest.param(
        {"volumes": [{"name": "v"}]}, "volumes.0", {"name": "v", "emptyDir": {}}, id="a volume is an emptyDir"
    ),
    pytest.param(
        {"volumes": [{"name": "v", "hostPath": {"path": "/a"}}]}, "volumes.0.hostPath.type", "", id="any host path does"
    ),
    pytest.param(
        {"volumes": [{"name": "v", "secret": {"secretName": "a"}}]},
        "volumes.0.secret.defaultMode",
        420,
        id="files of secrets are readable by all",
    ),
    pytest.param(
        {"volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
        "volumes.0.projected",
        {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]},
        id="a projected token lives one hour",
    ),
    pytest.param(
        {"volumes": [{"name": "v", "downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "x"}}]}}]},
        "volumes.0.downwardAPI.items.0.fieldRef.apiVersion",
        "v1",
        id="a downward file refers to version v1",
    ),
    pytest.param(
        {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]},
        "volumes.0.ephemeral.volumeClaimTemplate.spec.volumeMode",
        "Filesystem",
        id="an ephemeral volume has a file system",
    ),
    pytest.param(
        {"volumes": [{"name": "v", "image": {"reference": "models/big"}}]},
        "volumes.0.image.pullPolicy",
        "Always",
        id="an untagged image volume is pulled always",
    ),
]


@pytest.mark.parametrize(("spec", "path", "expected"), SPEC_DEFAULTS)
def test_a_template_and_a_pod_get(spec: dict[str, Any], path: str, expected: Any) -> None:
    template = {"metadata": {}, "spec": pod(**spec)["spec"]}
    default_pod_template(template)
    assert at(template["spec"], path) == expected
    assert at(prepared(POD, pod(**spec))["spec"], path) == expected


@pytest.mark.parametrize("sample", [case.values[0] for case in SPEC_DEFAULTS])
def test_defaults_change_nothing_the_second_time(sample: dict[str, Any]) -> None:
    once, twice = pod(**sample), pod(**sample)
    POD.default(once)
    POD.default(twice)
    POD.default(twice)
    assert once == twice


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        pytest.param("busybox", "Always", id="no tag means latest"),
        pytest.param("busybox:latest", "Always", id="latest is pulled always"),
        pytest.param("busybox:1.36", "IfNotPresent", id="another tag is pulled once"),
        pytest.param("registry:5000/team/app", "Always", id="a port is no tag"),
        pytest.param("registry:5000/team/app:v1", "IfNotPresent", id="a tag behind a port counts"),
        pytest.param("app@sha256:" + "a" * 64, "IfNotPresent", id="a digest is pulled once"),
        pytest.param("app:latest@sha256:" + "a" * 64, "Always", id="latest with a digest is still latest"),
        pytest.param("Not An Image", "IfNotPresent", id="nonsense is left to the node"),
        pytest.param("a" * 64, "IfNotPresent", id="a bare identifier is no name"),
        pytest.param("a" * 247, "Always", id="a name may be long"),
        pytest.param("a" * 248, "IfNotPresent", id="but not longer, with the library that it is in"),
        pytest.param("registry:5000/" + "a" * 255, "Always", id="the registry does not count"),
        pytest.param("registry:5000/" + "a" * 256, "IfNotPresent", id="a name too long, without its registry"),
        pytest.param("team/" + "a" * 251, "IfNotPresent", id="a name too long, with its team"),
        pytest.param("", "IfNotPresent", id="an absent image has no tag"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert pull_policy_for(image) == policy


POD_DEFAULTS = [
    pytest.param({}, "enableServiceLinks", True, id="service links"),
    pytest.param({"terminationGracePeriodSeconds": -5}, "terminationGracePeriodSeconds", 1, id="no negative grace"),
    pytest.param(
        {"containers": [container(resources={"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}})]},
        "containers.0.resources.requests",
        {"cpu": "500m", "memory": "1Gi"},
        id="requests from limits",
    ),
    pytest.param(
        {"initContainers": [container(name="init", resources={"limits": {"cpu": "1"}})]},
        "initContainers.0.resources.requests",
        {"cpu": "1"},
        id="requests of init containers from limits",
    ),
    pytest.param(
        {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80}])]},
        "containers.0.ports.0.hostPort",
        80,
        id="host ports where the host's network is used",
    ),
    pytest.param(
        {
            "resources": {"limits": {"cpu": "4", "memory": "4Gi"}},
            "containers": [container(resources={"requests": {"cpu": "1"}})],
            "initContainers": [
                container(name="side", restartPolicy="Always", resources={"requests": {"cpu": "1"}}),
                container(name="init", resources={"requests": {"cpu": "1500m"}}),
            ],
        },
        "resources.requests",
        {"cpu": "2500m", "memory": "4Gi"},
        id="requests of the whole from what runs together, or else from its limits",
    ),
    pytest.param(
        {
            "resources": {"requests": {"cpu": "1"}},
            "containers": [container(resources={"limits": {"hugepages-2Mi": "4Mi", "cpu": "1"}})],
        },
        "resources",
        {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}},
        id="huge pages of the whole from its containers",
    ),
]


@pytest.mark.parametrize(("spec", "path", "expected"), POD_DEFAULTS)
def test_only_a_pod_gets(spec: dict[str, Any], path: str, expected: Any) -> None:
    assert at(prepared(POD, pod(**spec))["spec"], path) == expected
    template = pod(**spec)["spec"]
    default_pod_spec(template)
    with pytest.raises((KeyError, AssertionError)):
        assert at(template, path) == expected


def test_the_first_address_and_the_list_of_addresses_agree() -> None:
    sample = pod() | {"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.2"}]}}
    POD.default(sample)
    assert sample["status"]["podIPs"] == [{"ip": "10.0.0.1"}]
    sample["status"] = {"podIPs": [{"ip": "10.0.0.3"}]}
    POD.default(sample)
    assert sample["status"]["podIP"] == "10.0.0.3"


def test_a_pod_is_born_pending() -> None:
    assert prepared(POD, pod())["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_a_gated_pod_says_why_it_is_not_scheduled() -> None:
    gated = pod(metadata={"creationTimestamp": "2030-01-01T00:00:00Z"}, schedulingGates=[{"name": "example.com/quota"}])
    assert prepared(POD, gated)["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": "2030-01-01T00:00:00Z",
        }
    ]


def test_label_keys_become_expressions_with_the_pods_own_values() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["job", "absent"],
    }
    term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["job"], "mismatchLabelKeys": ["user"]}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {"job": "a", "user": "b"}
    sample = pod(metadata={"labels": labels}, affinity=affinity, topologySpreadConstraints=[constraint])
    spec = prepared(POD, sample)["spec"]
    same_job = {"key": "job", "operator": "In", "values": ["a"]}
    other_user = {"key": "user", "operator": "NotIn", "values": ["b"]}
    assert spec["topologySpreadConstraints"][0]["labelSelector"] == {"matchExpressions": [same_job]}
    merged = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert merged["labelSelector"] == {"matchExpressions": [same_job, other_user]}


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(pod()["spec"], "BestEffort", id="nothing asked"),
        pytest.param(pod_of(resources={"limits": BOTH})["spec"], "Guaranteed", id="limits of both"),
        pytest.param(pod_of(resources={"limits": {"cpu": "1"}})["spec"], "Burstable", id="limits of one"),
        pytest.param(pod_of(resources={"requests": BOTH})["spec"], "Burstable", id="requests only"),
        pytest.param(
            pod_of(resources={"limits": BOTH, "requests": {"cpu": "500m"}})["spec"], "Burstable", id="less than limits"
        ),
        pytest.param(pod_of(resources={"limits": {"nvidia.com/gpu": "1"}})["spec"], "BestEffort", id="only devices"),
        pytest.param(pod_of(resources={"requests": {"cpu": "0"}})["spec"], "BestEffort", id="zero is nothing"),
        pytest.param(
            pod(containers=[container(resources={"limits": BOTH}), container(name="b")])["spec"],
            "Burstable",
            id="one container asks for nothing",
        ),
        pytest.param(pod(resources={"limits": BOTH})["spec"], "Guaranteed", id="limits of the whole pod"),
        pytest.param(pod(resources={"requests": BOTH})["spec"], "Burstable", id="requests of the whole pod"),
    ],
)
def test_the_class_of_service_with(spec: dict[str, Any], expected: str) -> None:
    sample = {"metadata": {"name": "a"}, "spec": spec}
    assert prepared(POD, sample)["status"]["qosClass"] == expected


@given(st.lists(st.sampled_from(["500m", "1", "2"]), min_size=1, max_size=4))
def test_equal_limits_and_requests_everywhere_are_guaranteed(cpus: list[str]) -> None:
    amounts = [{"cpu": cpu, "memory": "1Gi"} for cpu in cpus]
    containers = [{"resources": {"limits": each, "requests": each}} for each in amounts]
    assert qos_class({"containers": containers}) == "Guaranteed"
    containers[0]["resources"] = {"limits": amounts[0], "requests": {"cpu": "1m", "memory": "1Gi"}}
    assert qos_class({"containers": containers}) == "Burstable"
