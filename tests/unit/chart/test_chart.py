"""The Helm chart, by the real helm: well formed, refuses wrong values, renders what `allhands install` brings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from allhands.cli import root
from tests.helm import CHART, Helm

if TYPE_CHECKING:
    from pathlib import Path

KEPT = "helm.sh/resource-policy"
DIGEST = "sha256:" + "ab" * 32
POLICY = 'apiVersion: allhands.dev/v1alpha1\nkind: SchedulingPolicy\n# "quoted", {{ braces }} and ünïcode\n'
SAME: dict[str, tuple[list[str], dict[str, Any]]] = {
    "defaults": ([], {}),
    "all options": (
        [
            "--namespace=elsewhere",
            f"--image=images.example:5000/team/allhands:1.2@{DIGEST}",
            "--image-pull-secret=one",
            "--image-pull-secret=two",
            "--scheduler-name=a",
            "--scheduler-name=b.c",
            "--replicas=3",
            "--api-port=16443",
            "--metrics-secret=opener",
        ],
        {
            "namespace": "elsewhere",
            "image": {"repository": "images.example:5000/team/allhands", "tag": "1.2", "digest": DIGEST},
            "imagePullSecrets": ["one", "two"],
            "schedulerNames": ["a", "b.c"],
            "replicas": 3,
            "networkPolicy": {"apiServerPorts": [16443]},
            "metricsSecret": "opener",
        },
    ),
    "webhooks, and pods that were written for Volcano": (
        ["--webhooks", "--namespace=elsewhere", "--scheduler-name=allhands", "--scheduler-name=volcano"],
        {"webhooks": {"enabled": True}, "namespace": "elsewhere", "schedulerNames": ["allhands", "volcano"]},
    ),
    "an image by digest alone": ([f"--image=allhands@{DIGEST}"], {"image": {"digest": DIGEST}}),
}


@pytest.fixture(scope="module")
def helm(real_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    del real_tools  # whoever has the one has the other
    return Helm(tmp_path_factory.mktemp("helm"))


def installed(*arguments: str) -> list[dict[str, Any]]:
    """What `allhands install --dry-run -o yaml` prints."""
    result = CliRunner().invoke(root, ["install", "--dry-run", "-o", "yaml", *arguments])
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.stdout))


def by_name(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {f"{it['apiVersion']} {it['kind']} {it['metadata']['name']}": it for it in objects}
    assert len(found) == len(objects)
    return found


def without_helms_own(it: dict[str, Any]) -> dict[str, Any]:
    """Kinds carry an annotation that keeps helm from deleting them, and with them all queues; nothing else differs."""
    if it["kind"] == "CustomResourceDefinition":
        annotations = it["metadata"].pop("annotations")
        assert annotations.pop(KEPT) == "keep"
        if annotations:
            it["metadata"]["annotations"] = annotations
    return it


@pytest.mark.parametrize("case", SAME)
def test_the_chart_renders_what_install_brings(helm: Helm, tmp_path: Path, case: str) -> None:
    arguments, values = SAME[case]
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    ours = by_name(installed(*arguments))
    charts = {name: without_helms_own(it) for name, it in by_name(helm.rendered(values=file)).items()}
    assert charts.keys() == ours.keys()
    for name, it in ours.items():
        assert charts[name] == it, name


def test_a_policy_is_the_same_too(helm: Helm, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    ours = by_name(installed(f"--policy={policy}"))
    charts = by_name(helm.rendered(f"--set-file=policy={policy}"))
    for name in ("v1 ConfigMap allhands-policy", "apps/v1 Deployment allhands-scheduler"):
        assert charts[name] == ours[name]
    assert charts.keys() == ours.keys()


def test_it_is_well_formed(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), "--set=policy=x,metricsSecret=y")
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART), "--set=webhooks.enabled=true")


def test_a_release_in_our_namespace_makes_no_namespace_of_its_own(helm: Helm) -> None:
    inside = by_name(helm.rendered("--namespace=allhands-system"))
    assert by_name(helm.rendered()).keys() - inside.keys() == {"v1 Namespace allhands-system"}


def test_what_can_be_left_out_is_left_out(helm: Helm) -> None:
    left = by_name(helm.rendered("--set=kinds.install=false,networkPolicy.enabled=false,criticalPodsQuota=false"))
    kinds = {it["kind"] for it in left.values()}
    assert not kinds & {"CustomResourceDefinition", "NetworkPolicy", "ResourceQuota"}


def test_pods_that_name_a_queue_may_be_made_to_wait_for_an_answer(helm: Helm) -> None:
    strict = by_name(helm.rendered("--set=webhooks.enabled=true,webhooks.queuedPodsFailurePolicy=Fail"))
    kind = "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration allhands-webhooks"
    assert [it["failurePolicy"] for it in strict[kind]["webhooks"]] == ["Fail", "Fail"]


def test_where_pods_may_run_is_passed_on(helm: Helm, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    tolerations = [{"key": "dedicated", "operator": "Exists"}]
    limits = {"resources": {"limits": {"memory": "1Gi"}}}
    more = {"nodeSelector": {"role": "system"}, "tolerations": tolerations, "podAnnotations": {"a": "b"}}
    values.write_text(yaml.safe_dump(more | {"scheduler": limits}))
    found = by_name(helm.rendered(values=values))["apps/v1 Deployment allhands-scheduler"]["spec"]["template"]
    assert found["metadata"]["annotations"] == {"a": "b"}
    assert found["spec"]["nodeSelector"] == {"role": "system"}
    assert found["spec"]["tolerations"] == tolerations
    resources = found["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ("replicas=0", "/replicas"),
        ("replicas=two", "/replicas"),
        ("replica=2", "replica"),
        ("namespace=kube-system", "/namespace"),
        ("image.repository=Upper", "/image/repository"),
        ("image.digest=sha256:12", "/image/digest"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("schedulerNames={}", "/schedulerNames"),
        ("schedulerNames={a,a}", "/schedulerNames"),
        ("schedulerNames={a_b}", "/schedulerNames/0"),
        ("networkPolicy.apiServerPorts={70000}", "/networkPolicy/apiServerPorts/0"),
        ("scheduler.resource=1", "resource"),
        ("webhooks.enabled=perhaps", "/webhooks/enabled"),
        ("webhooks.queuedPodsFailurePolicy=Refuse", "/webhooks/queuedPodsFailurePolicy"),
        ("webhooks.replicas=2", "replicas"),
    ],
)
def test_wrong_values_are_refused_with_their_path(helm: Helm, setting: str, path: str) -> None:
    code, output = helm.attempt("template", "allhands", str(CHART), "--set", setting)
    assert code != 0
    assert path in output


def test_every_value_has_a_schema_and_a_default() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert schema["properties"].keys() - {"global"} == values.keys()
