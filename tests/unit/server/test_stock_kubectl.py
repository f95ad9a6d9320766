"""A stock kubectl works, with no flag that weakens it."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.unit.server.background import Background

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: x}}
spec: {containers: [{name: c, image: busybox}]}
"""
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n"
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, description: How large it is.}}}
"""
WIDGET = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 1}\n"


class Kubectl:
    """Runs kubectl against the server, with a home of its own for its caches."""

    def __init__(self, binary: Path, kubeconfig: Path, home: Path) -> None:
        self._binary = binary
        self._environment = os.environ | {"KUBECONFIG": str(kubeconfig), "HOME": str(home)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self._binary), *arguments],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def attempt(self, *arguments: str, text: str = "") -> tuple[int, str]:
        process = self.start(*arguments)
        output, _ = process.communicate(text, timeout=60)
        return process.returncode, output

    def __call__(self, *arguments: str, text: str = "") -> str:
        code, output = self.attempt(*arguments, text=text)
        assert code == 0, output
        return output


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, real_tools: Path) -> Iterator[Background]:
    with Background(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def kubectl(server: Background, real_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(real_tools / "kubectl", server.kubeconfig, tmp_path_factory.mktemp("home"))


@pytest.fixture
def namespace(kubectl: Kubectl, request: pytest.FixtureRequest) -> str:
    name: str = request.node.name.replace("_", "-").partition("[")[0][:60].strip("-")
    kubectl("create", "namespace", name)
    return name


def test_the_server_introduces_itself(kubectl: Kubectl) -> None:
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert "Server Version: v1.36.3" in kubectl("version")
    rows = kubectl("api-resources")
    assert "jobs" in rows
    assert "customresourcedefinitions" in rows
    assert "batch/v1" in kubectl("api-versions").split()
    assert "is running at https://127.0.0.1" in kubectl("cluster-info")


def test_apply_create_change_and_delete(kubectl: Kubectl, namespace: str) -> None:
    def apply(text: str, *more: str) -> str:
        return kubectl("apply", "-n", namespace, "-f", "-", *more, text=text)

    assert apply(POD) == "pod/a created\n"
    assert apply(POD) == "pod/a unchanged\n"
    assert apply(POD.replace("busybox", "busybox:2")) == "pod/a configured\n"
    assert "(server dry run)" in apply(POD.replace("app: x", "app: z"), "--dry-run=server")
    assert kubectl("get", "pod", "a", "-n", namespace, "-o", "jsonpath={.spec.containers[0].image}") == "busybox:2"
    code, output = kubectl.attempt("create", "-n", namespace, "-f", "-", text=POD)
    assert (code, "(AlreadyExists)" in output) == (1, True)
    assert kubectl("delete", "pod", "a", "-n", namespace, "--grace-period=0", "--force").count("deleted") == 1
    assert "(NotFound)" in kubectl.attempt("get", "pod", "a", "-n", namespace)[1]


def test_server_side_apply(kubectl: Kubectl, namespace: str) -> None:
    def apply(text: str, *more: str) -> tuple[int, str]:
        return kubectl.attempt("apply", "-n", namespace, "--server-side", "-f", "-", *more, text=text)

    assert apply(POD) == (0, "pod/a serverside-applied\n")
    changed = POD.replace("image: busybox", "image: busybox:2")
    code, output = apply(changed, "--field-manager=other")
    assert (code, 'conflict with "kubectl": .spec.containers[name="c"].image' in output) == (1, True), output
    assert apply(changed, "--field-manager=other", "--force-conflicts")[0] == 0
    code, output = apply(POD)
    assert (code, 'conflict with "other"' in output) == (1, True), output


def test_what_is_unknown_is_refused_before_it_is_sent_away(kubectl: Kubectl, namespace: str) -> None:
    bad = POD.replace("image: busybox", "image: busybox, colour: red")
    code, output = kubectl.attempt("apply", "-n", namespace, "-f", "-", text=bad)
    assert (code, 'unknown field "spec.containers[0].colour"' in output) == (1, True)


def test_get_in_its_forms(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", text=POD)
    assert kubectl("get", "pods", "-n", namespace).split()[:6] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "a"]
    assert "NOMINATED NODE" in kubectl("get", "pods", "-n", namespace, "-o", "wide")
    assert "kind: Pod" in kubectl("get", "pod", "a", "-n", namespace, "-o", "yaml")
    assert kubectl("get", "pods", "-n", namespace, "-l", "app=x", "-o", "name") == "pod/a\n"
    assert "No resources found" in kubectl("get", "pods", "-n", namespace, "-l", "app=y")
    assert kubectl("get", "pods", "-n", namespace, "--field-selector=status.phase=Pending", "-o", "name") == "pod/a\n"
    assert namespace in kubectl("get", "pods", "-A")
    assert "app=x" in kubectl("get", "pods", "-n", namespace, "--show-labels", "--sort-by=.metadata.name")
    assert "default" in kubectl("get", "namespaces", "--chunk-size=1")


def test_generators_that_send_protobuf(kubectl: Kubectl, namespace: str) -> None:
    assert "created" in kubectl("create", "configmap", "made", "--from-literal=k=v", "-n", namespace)
    assert kubectl("get", "configmap", "made", "-n", namespace, "-o", "jsonpath={.data.k}") == "v"
    assert "created" in kubectl("create", "deployment", "web", "--image=busybox", "-n", namespace)
    assert "scaled" in kubectl("scale", "deployment", "web", "--replicas=3", "-n", namespace)
    assert kubectl("get", "deployment", "web", "-n", namespace, "-o", "jsonpath={.spec.replicas}") == "3"
    assert "created" in kubectl("create", "job", "hello", "--image=busybox", "-n", namespace)


def test_patch_label_annotate_and_cordon(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", text=POD)
    in_namespace = ("-n", namespace)
    kubectl("patch", "pod", "a", *in_namespace, "-p", '{"metadata":{"labels":{"k":"v"}}}')
    kubectl("patch", "pod", "a", *in_namespace, "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels/k"}]')
    status = '{"status":{"message":"m"}}'
    kubectl("patch", "pod", "a", *in_namespace, "--subresource=status", "--type=merge", "-p", status)
    kubectl("label", "pod", "a", *in_namespace, "tier=front")
    kubectl("annotate", "pod", "a", *in_namespace, "note=yes")
    found = kubectl("get", "pod", "a", *in_namespace, "-o", "jsonpath={.metadata.labels}{.status.message}")
    assert found == '{"app":"x","tier":"front"}m'
    kubectl("create", "-f", "-", text=NODE)
    kubectl("cordon", "n1")
    assert "SchedulingDisabled" in kubectl("get", "nodes")
    assert "Unschedulable:      true" in kubectl("describe", "node", "n1")


def test_describe_explain_and_diff(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", text=POD)
    assert "Image:        busybox" in kubectl("describe", "pod", "a", "-n", namespace)
    assert "Container image name" in kubectl("explain", "pod.spec.containers.image")
    assert "completions\t<integer>" in kubectl("explain", "job.spec")
    changed = POD.replace("busybox", "busybox:3")
    code, output = kubectl.attempt("diff", "-n", namespace, "-f", "-", text=changed)
    assert (code, "+  - image: busybox:3" in output) == (1, True)


def test_wait(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", text=POD)
    pending = "--for=jsonpath={.status.phase}=Pending"
    assert "condition met" in kubectl("wait", pending, "pod/a", "-n", namespace, "--timeout=20s")
    waiting = kubectl.start("wait", "--for=delete", "pod/a", "-n", namespace, "--timeout=30s")
    kubectl("delete", "pod", "a", "-n", namespace, "--grace-period=0", "--force")
    waiting.communicate(timeout=60)
    assert waiting.returncode == 0


def test_watch(kubectl: Kubectl, namespace: str) -> None:
    watching = kubectl.start("get", "pods", "-n", namespace, "-w")
    assert watching.stdout is not None
    kubectl("apply", "-n", namespace, "-f", "-", text=POD)
    lines = [watching.stdout.readline(), watching.stdout.readline()]
    kubectl("label", "pod", "a", "-n", namespace, "z=1")
    lines.append(watching.stdout.readline())
    watching.terminate()
    watching.communicate(timeout=60)
    assert lines[0].startswith("NAME")
    assert [line.split()[0] for line in lines[1:]] == ["a", "a"]


def test_what_has_no_kubelet_behind_it_says_so(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", text=POD)
    for command in (("logs", "a"), ("exec", "a", "--", "ls")):
        code, output = kubectl.attempt(command[0], "-n", namespace, *command[1:])
        assert (code, "is not served by the embedded cluster" in output) == (1, True)


def test_custom_kinds(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-f", "-", text=DEFINITION)
    kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=20s")
    assert "created" in kubectl("apply", "-n", namespace, "-f", "-", text=WIDGET)
    assert "unchanged" in kubectl("apply", "-n", namespace, "-f", "-", text=WIDGET)
    assert "configured" in kubectl("apply", "-n", namespace, "-f", "-", text=WIDGET.replace("1}", "2}"))
    assert kubectl("get", "wd", "-n", namespace).split()[-2] == "w"
    assert "Size:  2" in kubectl("describe", "widget", "w", "-n", namespace)
    assert "How large it is." in kubectl("explain", "widget.spec.size")
    assert "deleted" in kubectl("delete", "-n", namespace, "-f", "-", text=WIDGET)


def test_kubectl_is_not_kept_waiting(kubectl: Kubectl) -> None:
    begin = time.monotonic()
    kubectl("get", "pods")
    assert time.monotonic() - begin < 20
