"""`allhands install` and `uninstall`, and the Helm chart, on the real API server: twice is as good as once, and nothing
is left behind."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from allhands.api.volcano.queue import QUEUE
from allhands.cli import root
from allhands.measure.processes import wait_until
from allhands.runtime.installation.places import COLLECTIONS
from allhands.runtime.installing import KINDS
from tests.controlplane import ControlPlane
from tests.helm import CHART, Helm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)  # some machines are slow, and namespaces take their time to go
WITHIN_SECONDS = 120
CRDS = [f"customresourcedefinition.apiextensions.k8s.io/{kind.name}" for kind in KINDS]
FOLLOWED = "customresourcedefinitions,namespaces,clusterroles,clusterrolebindings"
SHARED = "--namespace=shared"
"""A namespace that is not ours, so that nothing has to wait until it is gone."""
FOREIGN_KIND = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": QUEUE.name},
    "spec": {
        "group": QUEUE.group,
        "names": {"kind": "Queue", "plural": "queues", "singular": "queue", "listKind": "QueueList"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class Cluster:
    """The server with its kubectl and helm, and our own commands."""

    def __init__(self, plane: ControlPlane, home: Path) -> None:
        self.plane = plane
        self.home = home
        self.helm = Helm(home, plane.kubeconfig)

    def kubectl(self, *arguments: str, manifest: Any = None) -> str:
        done = subprocess.run(
            [str(self.plane.kubectl), f"--kubeconfig={self.plane.kubeconfig}", *arguments],
            env={"HOME": str(self.home)},
            input=json.dumps(manifest) if manifest else "",
            capture_output=True,
            text=True,
            check=False,
            timeout=WITHIN_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def attempt(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        done = CliRunner(env={"KUBECONFIG": str(self.plane.kubeconfig)}).invoke(root, arguments)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
        return done.exit_code, done.stdout, done.stderr

    def allhands(self, *arguments: str) -> dict[str, str]:
        """Object -> what was done to it."""
        code, out, err = self.attempt(*arguments)
        assert code == 0, out + err
        assert "Warning" not in err
        return {line.partition(" ")[0]: line.partition(" ")[2] for line in out.splitlines()}

    def names(self) -> set[str]:
        """What is there that could be ours."""
        return set(self.kubectl("get", FOLLOWED, "-o", "name").split())

    def as_user(self, name: str) -> Path:
        """A kubeconfig of a service account that nobody granted anything."""
        self.kubectl("create", "serviceaccount", name, "-n", "default")
        config = yaml.safe_load(self.plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": self.kubectl("create", "token", name, "-n", "default").strip()}
        path = self.home / name
        path.write_text(yaml.safe_dump(config))
        return path


@pytest.fixture(scope="module")
def cluster(real_tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    del real_tools
    with ControlPlane(controllers=("namespace-controller",)) as plane:
        made = Cluster(plane, tmp_path_factory.mktemp("home"))
        made.kubectl("create", "namespace", "shared")
        yield made


@pytest.fixture
def empty(cluster: Cluster) -> Iterator[Cluster]:
    """Nothing of ours before the test, and nothing after it."""
    before = cluster.names()
    yield cluster
    cluster.attempt("uninstall", "--purge")
    assert cluster.names() == before


def _queue(name: str) -> dict[str, Any]:
    return {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": 2}}


def test_installed_twice_nothing_changes_and_uninstalled_nothing_is_left(empty: Cluster) -> None:
    before = empty.names()
    first = empty.allhands("install")
    assert set(first.values()) == {"created"}
    assert set(empty.allhands("install").values()) == {"unchanged"}
    assert set(empty.allhands("install", "--dry-run").values()) == {"unchanged (dry run)"}
    labels = json.loads(empty.kubectl("get", "namespace", "allhands-system", "-o", "json"))["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    for part in ("scheduler", "controllers"):
        found = json.loads(empty.kubectl("get", f"deployment/allhands-{part}", "-n", "allhands-system", "-o", "json"))
        pod = {"apiVersion": "v1", "kind": "Pod", **found["spec"]["template"]}
        pod["metadata"] |= {"name": part, "namespace": "allhands-system"}
        # The namespace's policy and the quota for critical pods let it in.
        empty.kubectl("create", "--dry-run=server", "-f", "-", manifest=pod)
    deleted = empty.allhands("uninstall")
    assert deleted == dict.fromkeys(first, "deleted")
    assert empty.names() == before
    code, _, err = empty.attempt("uninstall")
    assert code == 0
    assert "nothing of allhands is in this cluster" in err


def test_another_release_changes_what_is_different_and_removes_what_it_has_no_more(
    empty: Cluster, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: allhands.dev/v1alpha1\nkind: SchedulingPolicy\n")
    empty.allhands("install", SHARED, f"--policy={policy}")
    # What somebody else sets on our objects is left to him; what is ours is set right again.
    scheduler = ("deployment/allhands-scheduler", "-n", "shared")
    empty.kubectl("annotate", *scheduler, "theirs=kept")
    empty.kubectl("scale", *scheduler, "--replicas=0")
    done = empty.allhands("install", SHARED, "--replicas=3", "--scheduler-name=a", "--image=allhands:other")
    assert {name: what for name, what in done.items() if what.startswith(("c", "r"))} == {
        "configmap/allhands-policy": "removed (it is no part of this installation any more)",
        "deployment.apps/allhands-scheduler": "configured",
        "deployment.apps/allhands-controllers": "configured",
    }
    found = json.loads(empty.kubectl("get", *scheduler, "-o", "json"))
    assert found["spec"]["replicas"] == 3
    assert found["metadata"]["annotations"]["theirs"] == "kept"
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "allhands:other"
    assert "--scheduler-name=a" in container["args"]
    assert "volumes" not in found["spec"]["template"]["spec"]


def test_a_dry_run_into_an_empty_cluster_changes_nothing(empty: Cluster) -> None:
    before = empty.names()
    done = empty.allhands("install", "--dry-run")
    assert {what.partition(" ")[0] for what in done.values()} == {"created"}
    assert empty.names() == before


def test_without_rights_it_says_which_and_does_nothing(empty: Cluster) -> None:
    before = empty.names()
    config = empty.as_user("nobody")
    code, out, err = empty.attempt("install", f"--kubeconfig={config}")
    assert code == 1
    assert not out
    for right in (
        "create clusterroles.rbac.authorization.k8s.io",
        "patch deployments.apps in namespace allhands-system",
    ):
        assert right in err
    assert "Traceback" not in err
    code, out, err = empty.attempt("uninstall", f"--kubeconfig={config}")
    assert (code, out) == (1, "")
    assert "list customresourcedefinitions.apiextensions.k8s.io" in err
    assert empty.names() == before


def test_who_cannot_grant_our_rights_is_told_so_before_anything_is_written(empty: Cluster) -> None:
    """Somebody may write roles, and has few rights himself: then nobody may have more through him."""
    config = empty.as_user("installer")
    rules = [
        {"apiGroups": [resource.group], "resources": [resource.plural], "verbs": ["get", "list", "create", "patch"]}
        for resource, _ in COLLECTIONS.values()
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "installer"}}
    empty.kubectl("create", "-f", "-", manifest=role | {"rules": rules})
    empty.kubectl("create", "clusterrolebinding", "installer", "--clusterrole=installer", "--user=unused")
    subject = [{"kind": "ServiceAccount", "name": "installer", "namespace": "default"}]
    empty.kubectl("patch", "clusterrolebinding", "installer", "-p", json.dumps({"subjects": subject}))
    before = empty.names()
    code, out, err = empty.attempt("install", f"--kubeconfig={config}")
    assert (code, out) == (1, "")
    assert "attempting to grant RBAC permissions not currently held" in err
    assert "pods/binding" in err
    assert empty.names() == before
    empty.kubectl("delete", "clusterrole/installer", "clusterrolebinding/installer")


def test_queues_of_people_are_not_deleted_unasked(empty: Cluster) -> None:
    empty.allhands("install", "--kinds-only", "--wait", "--timeout=60s")
    empty.allhands("install")
    empty.kubectl("create", "-f", "-", manifest=_queue("team-a"))
    empty.kubectl("create", "configmap", "precious", "-n", "allhands-system")
    there = empty.names()
    code, out, err = empty.attempt("uninstall")
    assert (code, out) == (1, "")
    assert "queue.scheduling.volcano.sh/team-a" in err
    assert "configmaps/precious in allhands-system" in err
    assert "--purge" in err
    assert empty.names() == there
    empty.kubectl("delete", "configmap", "precious", "-n", "allhands-system")
    assert "customresourcedefinition" not in str(empty.allhands("uninstall", "--keep-kinds"))
    assert "team-a" in empty.kubectl("get", "queues", "-o", "name")
    assert empty.allhands("uninstall", "--purge") == dict.fromkeys(CRDS, "deleted")


def test_what_belongs_to_others_is_used_and_not_changed(empty: Cluster) -> None:
    empty.kubectl("create", "-f", "-", manifest=FOREIGN_KIND)
    before = empty.names()
    done = empty.allhands("install", SHARED)
    kept = [name for name, what in done.items() if what.startswith("kept")]
    assert kept == [f"customresourcedefinition.apiextensions.k8s.io/{QUEUE.name}", "namespace/shared"]
    labels = json.loads(empty.kubectl("get", "namespace", "shared", "-o", "json"))["metadata"]["labels"]
    assert not any("pod-security" in name for name in labels)
    code, _, err = empty.attempt("install")
    assert code == 1
    assert "it is installed in namespace 'shared' already" in err
    assert not set(kept) & set(empty.allhands("uninstall"))
    assert empty.names() == before
    empty.kubectl("create", "clusterrole", "allhands-scheduler", "--verb=get", "--resource=pods")
    code, out, err = empty.attempt("install")
    assert (code, out) == (1, "")
    assert "not ours: clusterrole.rbac.authorization.k8s.io/allhands-scheduler" in err
    empty.kubectl("delete", "clusterrole/allhands-scheduler", f"crd/{QUEUE.name}")


def test_only_kinds_are_enough_for_a_scheduler_outside(empty: Cluster) -> None:
    done = empty.allhands("install", "--kinds-only", "--wait", "--timeout=60s")
    assert done == dict.fromkeys(CRDS, "created")


def test_waiting_in_vain_says_what_is_missing(empty: Cluster) -> None:
    code, _, err = empty.attempt("install", SHARED, "--wait", "--timeout=1s")
    assert code == 1
    assert "deployment.apps/allhands-scheduler has 0 of 2 replicas available" in err


def test_what_is_printed_can_be_applied_by_kubectl(empty: Cluster) -> None:
    code, text, _ = empty.attempt("install", SHARED, "--dry-run", "-o", "json", "--metrics-secret=opener")
    assert code == 0
    empty.allhands("install", SHARED)
    applied = empty.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-",
        manifest=json.loads(text),
    )  # fmt: skip
    assert applied.count("serverside-applied (server dry run)") == len(json.loads(text)["items"])


def _keep_what_webhooks_have_written(cluster: Cluster) -> None:
    """An upgrade leaves the keys, and whom the API server is to trust, as the webhooks have filled them in."""
    upgrade = ("upgrade", "allhands", str(CHART), "--namespace=default")
    cluster.helm(*upgrade, "--set=webhooks.enabled=true,schedulerNames={allhands,volcano}")
    secret = ("secret/allhands-webhooks", "-n", "allhands-system")
    asked = "validatingwebhookconfiguration/allhands-webhooks"
    bundle = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "bm9uZQ=="}]
    cluster.kubectl("patch", *secret, "--type=merge", "-p", json.dumps({"data": {"key": "c2VjcmV0"}}))
    cluster.kubectl("patch", asked, "--type=json", "-p", json.dumps(bundle))
    cluster.helm(*upgrade, "--set=webhooks.enabled=true,replicas=3")
    assert json.loads(cluster.kubectl("get", *secret, "-o", "json"))["data"] == {"key": "c2VjcmV0"}
    kept = json.loads(cluster.kubectl("get", asked, "-o", "json"))["webhooks"][0]["clientConfig"]
    assert (kept["caBundle"], kept["service"]["namespace"]) == ("bm9uZQ==", "allhands-system")


def test_a_release_of_the_chart_is_helms_to_change_and_to_remove(empty: Cluster) -> None:
    """The server's schemas take every rendered object; helm's own life cycle works, and ours stays out of it."""
    before = empty.names()
    empty.helm("install", "allhands", str(CHART), "--namespace=default")
    for command in ("install", "uninstall"):
        code, out, err = empty.attempt(command)
        assert (code, out) == (1, "")
        assert "it was installed by Helm" in err
        assert "allhands -n default" in err
    empty.helm("upgrade", "allhands", str(CHART), "--namespace=default", "--set=replicas=3,policy=x")
    scheduler = ("get", "deployment/allhands-scheduler", "-n", "allhands-system", "-o", "json")
    assert json.loads(empty.kubectl(*scheduler))["spec"]["replicas"] == 3
    _keep_what_webhooks_have_written(empty)
    empty.helm("uninstall", "allhands", "--namespace=default")
    wait_until(lambda: empty.names() == before | set(CRDS), 60, "the end of the release")
    # What Helm has left behind is ours to use and to remove.
    assert empty.allhands("install", "--kinds-only") == dict.fromkeys(CRDS, "configured")
    assert empty.allhands("uninstall") == dict.fromkeys(CRDS, "deleted")
