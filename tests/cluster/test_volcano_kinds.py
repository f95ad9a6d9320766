"""The generated definitions of Volcano's kinds mean the same to the real API server and to the embedded one."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from allhands.api.volcano.kinds import VOLCANO_KINDS
from allhands.kube import kubeconfig
from allhands.kube.objects import KubeObjects
from allhands.runtime.installing import install_kinds
from tests.kubectl import Kubectl, kubectl_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.controlplane import ControlPlane

LARGEST_BYTES = 200_000
"""etcd takes 1.5 MiB, and kubectl keeps a copy of what it applies in an annotation of at most 256 KiB."""


@pytest.fixture(scope="module", params=["real", "embedded"])
def kubectl(
    request: pytest.FixtureRequest,
    control_plane: ControlPlane,
    real_tools: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Kubectl]:
    home = tmp_path_factory.mktemp("home")
    with kubectl_at(request.param, control_plane, real_tools, home, VOLCANO_KINDS) as kubectl:
        asyncio.run(_install(kubectl))
        yield kubectl


async def _install(kubectl: Kubectl) -> None:
    async with KubeObjects(kubeconfig.load(kubectl.config)) as objects:
        await install_kinds(objects)


def _job(name: str, *, pod: dict[str, Any] | None = None, task: dict[str, Any] | None = None, **spec: Any) -> Any:
    container = {"name": "main", "image": "busybox", "ports": [{"containerPort": 22}]}
    pod_spec = {"containers": [container], **(pod or {})}
    made = {"name": "worker", "replicas": 2, "template": {"spec": pod_spec}, **(task or {})}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": [made], **spec},
    }


def _stored(kubectl: Kubectl, kind: str, name: str) -> Any:
    return json.loads(kubectl("get", kind, name, "-o", "json"))


def test_every_definition_is_established_as_it_was_generated(kubectl: Kubectl) -> None:
    for definition in VOLCANO_KINDS:
        stored = _stored(kubectl, "crd", definition.name)
        assert stored["spec"] == definition.manifest()["spec"], definition.name
        conditions = {it["type"]: it["status"] for it in stored["status"]["conditions"]}
        assert conditions["Established"] == "True", definition.name
        assert "NonStructuralSchema" not in conditions, definition.name
        assert len(msgspec.json.encode(stored)) < LARGEST_BYTES, definition.name


def test_short_names_are_those_that_users_type(kubectl: Kubectl) -> None:
    for short in ("vcjob", "vj", "cronvcjob", "cronvj", "pg", "q", "jf", "jt", "hn", "numatopo", "commands"):
        kubectl("get", short)


def test_an_unknown_field_is_dropped_wherever_it_stands(kubectl: Kubectl) -> None:
    manifest = _job("pruned", pod={"colour": "red", "nodeName": "n"}, task={"size": "xl"}, minutes=5)
    manifest["spec"]["tasks"][0]["template"]["metadata"] = {"labels": {"a": "b"}, "uid": "mine"}
    manifest["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["speed"] = "high"
    kubectl("create", "--validate=false", "-f", "-", manifest=manifest)
    stored = _stored(kubectl, "vcjob", "pruned")["spec"]
    assert stored == {
        "queue": "default",
        "maxRetry": 3,
        "tasks": [
            {
                "name": "worker",
                "replicas": 2,
                "maxRetry": 3,
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {
                        "nodeName": "n",
                        "containers": [
                            {
                                "name": "main",
                                "image": "busybox",
                                "ports": [{"containerPort": 22, "protocol": "TCP"}],
                            }
                        ],
                    },
                },
            }
        ],
    }


def test_an_unknown_field_is_told_to_who_asks(kubectl: Kubectl) -> None:
    manifest = _job("strict", pod={"colour": "red"})
    code, output = kubectl.attempt("create", "--validate=strict", "-f", "-", manifest=manifest)
    assert code
    assert 'unknown field "spec.tasks[0].template.spec.colour"' in output


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (_job("bad", task={"topologyPolicy": "near"}), 'spec.tasks[0].topologyPolicy: Unsupported value: "near"'),
        (_job("bad", policies=[{"event": "PodLost", "action": "AbortJob"}]), "spec.policies[0].event: Unsupported"),
        (_job("bad", policies=[{"event": "*", "action": "Restart"}]), "spec.policies[0].action: Unsupported value"),
        (_job("bad", task={"replicas": -1}), "spec.tasks[0].replicas: Invalid value"),
        (_job("bad", task={"replicas": 2**31}), "spec.tasks[0].replicas"),
        (_job("bad", queue="No Queue"), "spec.queue: Invalid value"),
        (_job("bad", tasks=[]), "spec.tasks: Invalid value"),
        (_job("bad", pod={"containers": "none"}), "spec.tasks[0].template.spec.containers: Invalid value"),
        (_job("bad", pod={"restartPolicy": 3}), "spec.tasks[0].template.spec.restartPolicy: Invalid value"),
        (_job("bad", volumes=[{"mountPath": "a:b"}]), "spec.volumes[0].mountPath: Invalid value"),
        (_job("bad", plugins={"svc": "all"}), "spec.plugins.svc: Invalid value"),
        (_job("bad", networkTopology={"mode": "firm"}), 'spec.networkTopology.mode: Unsupported value: "firm"'),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_what_the_schema_forbids_is_refused_with_its_path(kubectl: Kubectl, manifest: Any, words: str) -> None:
    code, output = kubectl.attempt("create", "--validate=false", "-f", "-", manifest=manifest)
    assert code
    assert words in output


def test_the_status_of_a_group_is_written_with_the_whole_of_it(kubectl: Kubectl) -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "whole"},
        "spec": {"minMember": 2},
        "status": {"phase": "Inqueue"},
    }
    kubectl("create", "-f", "-", manifest=group)
    assert _stored(kubectl, "pg", "whole")["status"] == {"phase": "Inqueue"}
    code, output = kubectl.attempt("patch", "pg", "whole", "--subresource=status", "--type=merge", "-p", "{}")
    assert code
    assert "NotFound" in output or "not found" in output


def test_a_command_has_its_fields_beside_its_metadata(kubectl: Kubectl) -> None:
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "pruned", "uid": "u"}
    command = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "stop"},
        "action": "AbortJob",
        "target": target,
        "reason": "Why",
    }
    kubectl("create", "-f", "-", manifest=command)
    stored = _stored(kubectl, "commands.bus.volcano.sh", "stop")
    assert (stored["action"], stored["target"], stored["reason"]) == ("AbortJob", target, "Why")


def test_a_patch_of_a_flow_says_only_what_was_written(kubectl: Kubectl) -> None:
    step = {"name": "train", "patch": {"jobSpec": {"minAvailable": 3, "networkTopology": {"highestTierAllowed": 1}}}}
    flow = {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "flow"},
        "spec": {"flows": [step], "jobRetainPolicy": "retain"},
    }
    kubectl("create", "-f", "-", manifest=flow)
    assert _stored(kubectl, "jf", "flow")["spec"]["flows"] == [step]


def test_explain_shows_our_fields_and_those_of_pods(kubectl: Kubectl) -> None:
    text = " ".join(kubectl("explain", "jobs.spec.tasks", "--api-version=batch.volcano.sh/v1alpha1").split())
    assert "How many pods there are." in text
    assert "How the CPUs of each pod are to lie on its node." in text
    inside = kubectl("explain", "jobs.spec.tasks.template.spec.containers", "--api-version=batch.volcano.sh/v1alpha1")
    assert "livenessProbe" in inside


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        (_job("bad", task={"minAvailable": 3}), "minAvailable must not be more than replicas"),
        (_job("bad", networkTopology={"mode": "hard"}), "with mode hard, highestTierAllowed or highestTierName must"),
        (
            _job("bad", networkTopology={"highestTierAllowed": 1, "highestTierName": "rack"}),
            "the highest tier is said by highestTierAllowed or by highestTierName, not by both",
        ),
        (
            {
                "apiVersion": "topology.volcano.sh/v1alpha1",
                "kind": "HyperNode",
                "metadata": {"name": "bad"},
                "spec": {"tier": 1, "members": [{"type": "Node", "selector": {}}]},
            },
            "exactly one of exactMatch, regexMatch and labelMatch",
        ),
    ],
    ids=lambda it: it if isinstance(it, str) else "",
)
def test_rules_over_several_fields_hold_without_a_webhook(kubectl: Kubectl, manifest: Any, words: str) -> None:
    code, output = kubectl.attempt("create", "--validate=false", "-f", "-", manifest=manifest)
    assert code
    assert words in output
