"""What an installation consists of: least rights, restricted pods, and arguments that our own commands take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pytest
import yaml

from allhands import __version__
from allhands.cli import root
from allhands.compose.lacking import LACKING, Around, wanted
from allhands.compose.machine import SystemClock
from allhands.runtime.installation import InstallOptions, OptionError, install_objects, kind_objects, people_objects
from allhands.runtime.installation.places import COLLECTIONS, place_of
from allhands.runtime.installation.rights import (
    CONTROLLERS,
    CONTROLLERS_AT_HOME,
    HOME,
    SCHEDULER,
    SCHEDULER_AT_HOME,
    Rule,
    of_controllers,
)
from allhands.runtime.scheduling.scheduler import Scheduler
from allhands.store import InProcessObjects, Store
from tests.doubles import CountingIds, ManualClock
from tools.chart import FOLDER, files

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.runtime.informer import Informer

POLICY = "apiVersion: allhands.dev/v1alpha1\n"
EVERYTHING = InstallOptions(
    namespace="elsewhere",
    image="images.example:5000/team/allhands:1.2@sha256:" + "0" * 64,
    pull_secrets=("key",),
    scheduler_names=("a", "b"),
    replicas=3,
    policy=POLICY,
    metrics_secret="metrics",
    api_ports=(16443,),
)
FORBIDDEN_VERBS = {"*", "escalate", "bind", "impersonate", "deletecollection", "approve", "sign"}
FORBIDDEN_RESOURCES = {"*", "serviceaccounts", "serviceaccounts/token", "nodes/proxy", "pods/exec"}


def of_kind(kind: str, options: InstallOptions = EVERYTHING) -> list[Manifest]:
    return [it for it in install_objects(options) if it["kind"] == kind]


def rules_of(options: InstallOptions = EVERYTHING) -> list[Manifest]:
    """Of what runs."""
    roles = [it for it in of_kind("ClusterRole", options) + of_kind("Role", options) if it not in people_objects()]
    return [rule for it in roles for rule in it["rules"]]


def test_no_rule_has_a_wildcard_shows_all_secrets_or_has_a_verb_that_grants_rights() -> None:
    assert rules_of()
    for rule in rules_of():
        assert not FORBIDDEN_VERBS & set(rule["verbs"]), rule
        assert not FORBIDDEN_RESOURCES & set(rule["resources"]), rule
        assert "secrets" not in rule["resources"] or rule["verbs"] == ["create"] or rule.get("resourceNames"), rule
        assert "*" not in rule["apiGroups"], rule
        assert "rbac.authorization.k8s.io" not in rule["apiGroups"], rule
        assert "nonResourceURLs" not in rule, rule


def test_who_may_edit_or_view_a_namespace_may_do_that_with_its_jobs_and_nothing_is_given_to_anybody_by_us() -> None:
    edit, view, queues = people_objects()
    for role, into in ((edit, "edit"), (view, "view")):
        assert role["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{into}"] == "true"
        assert {"jobs", "jobflows", "podgroups", "commands"} <= {
            it for rule in role["rules"] for it in rule["resources"]
        }
    assert not any("aggregate" in label for label in queues["metadata"]["labels"])
    given = {it["roleRef"]["name"] for kind in ("ClusterRoleBinding", "RoleBinding") for it in of_kind(kind)}
    assert not given & {it["metadata"]["name"] for it in (edit, view, queues)}
    written = {verb for role in (view, queues) for rule in role["rules"] for verb in rule["verbs"]}
    assert written == {"get", "list", "watch"}


def test_only_pods_claims_volumes_and_homes_of_groups_are_written_in_the_whole_cluster() -> None:
    """A list that a reader can check: who breaks into the scheduler can do this and no more."""
    written = {
        f"{verb} {name}" + (f".{rule.group}" if rule.group else "")
        for rule in SCHEDULER
        for name in rule.resources
        for verb in rule.verbs
        if verb not in ("get", "list", "watch")
    }
    assert written == {
        "create events",
        "create pods/binding",
        "create pods/eviction",
        "patch events",
        "patch jobs.batch",
        "patch persistentvolumeclaims",
        "patch persistentvolumes",
        "patch podgroups.scheduling.k8s.io",
        "patch podgroups.scheduling.volcano.sh",
        "patch podgroups.scheduling.x-k8s.io",
        "patch podgroups/status.scheduling.k8s.io",
        "patch podgroups/status.scheduling.volcano.sh",
        "patch podgroups/status.scheduling.x-k8s.io",
        "patch pods",
        "patch pods/status",
    }


def test_the_controllers_delete_only_what_they_lead() -> None:
    """A list that a reader can check: pods and groups of Jobs, what their plugins made, which is theirs by its owner,
    Jobs whose time has passed, Commands that were done. Never a Secret, whose owner nobody could look at."""
    deleted = {f"{name}.{rule.group}" for rule in CONTROLLERS for name in rule.resources if "delete" in rule.verbs}
    assert deleted == {
        "commands.bus.volcano.sh",
        "configmaps.",
        "jobs.batch.volcano.sh",
        "networkpolicies.networking.k8s.io",
        "podgroups.scheduling.volcano.sh",
        "pods.",
        "services.",
    }
    assert not [rule for rule in (*SCHEDULER, *SCHEDULER_AT_HOME, *CONTROLLERS_AT_HOME) if "delete" in rule.verbs]


def may(rules: tuple[Rule, ...], verb: str, informer: Informer[Any]) -> bool:
    group, plural = informer.resource.group, informer.resource.plural
    return any(it.group == group and plural in it.resources and verb in it.verbs for it in rules)


def unreadable(rules: tuple[Rule, ...], informers: list[Informer[Any]]) -> list[str]:
    return [f"{verb} {it.resource}" for it in informers for verb in ("list", "watch") if not may(rules, verb, it)]


def read_but_not_watched(rules: tuple[Rule, ...], informers: list[Informer[Any]]) -> set[str]:
    """What a rule lets list and no informer lists."""
    watched = {(it.resource.group, it.resource.plural) for it in informers}
    granted = {(rule.group, name) for rule in rules for name in rule.resources if "list" in rule.verbs}
    return {f"{name}.{group}" for group, name in granted - watched}


async def test_the_scheduler_may_read_what_it_watches_and_nothing_else() -> None:
    objects = InProcessObjects(Store(ManualClock(), CountingIds()))
    informers = list(Scheduler(objects, SystemClock()).watched.informers)
    assert unreadable(SCHEDULER, informers) == []
    assert read_but_not_watched(SCHEDULER, informers) == set()


@pytest.mark.parametrize("names", [("allhands",), ("allhands", "volcano")])
async def test_the_controllers_may_read_what_they_watch_and_nothing_else(names: tuple[str, ...]) -> None:
    objects = InProcessObjects(Store(ManualClock(), CountingIds()))
    around = Around(objects, names, objects)
    informers = [informer for it in wanted(names) for informer in LACKING[it](around).informers]
    assert unreadable(of_controllers(names), informers) == []
    assert read_but_not_watched(of_controllers(names), informers) == set()


def test_owners_of_pods_are_looked_at_only_where_pods_of_volcano_are_placed() -> None:
    for names, is_granted in ((("a", "b"), False), (("a", "volcano"), True)):
        rules = rules_of(InstallOptions(scheduler_names=names))
        scheduler = {"apiGroups": ["apps"], "resources": ["replicasets", "statefulsets"], "verbs": ["list", "watch"]}
        assert rules.count(scheduler) == (2 if is_granted else 1)


def test_leases_and_the_ledger_are_only_ours_and_only_at_home() -> None:
    for rule in SCHEDULER:
        assert not {"leases", "configmaps"} & set(rule.resources)
    for rule in CONTROLLERS:
        assert "leases" not in rule.resources
    for rule in (*SCHEDULER_AT_HOME, *CONTROLLERS_AT_HOME):
        assert rule == HOME or rule.names or rule.verbs == ("create",), "what exists is granted by name"
    for role in of_kind("Role"):
        assert role["metadata"]["namespace"] == "elsewhere"


@pytest.mark.parametrize("part", ["scheduler", "controllers"])
def test_our_own_commands_take_the_arguments(part: str) -> None:
    found = next(it for it in of_kind("Deployment") if it["metadata"]["name"] == f"allhands-{part}")
    container = found["spec"]["template"]["spec"]["containers"][0]
    name, *arguments = container["args"]
    command = root.get_command(click.Context(root), name)
    assert command is not None
    arguments = [it for it in arguments if not it.startswith("--policy=")]  # its file is in the container
    context = command.make_context(name, arguments)
    assert context.params["scheduler_names"] == ("a", "b")


@pytest.mark.parametrize("options", [InstallOptions(), EVERYTHING], ids=["defaults", "everything"])
def test_pods_are_as_restricted_as_the_strictest_profile_asks_for(options: InstallOptions) -> None:
    for deployment in of_kind("Deployment", options):
        spec = deployment["spec"]["template"]["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["requests"].keys() == {"cpu", "memory"}
            assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
            assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    [namespace] = of_kind("Namespace", options)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_what_selects_pods_selects_them_and_knows_no_version() -> None:
    templates = {it["metadata"]["name"]: it["spec"]["template"]["metadata"]["labels"] for it in of_kind("Deployment")}
    for it in [*of_kind("Deployment"), *of_kind("PodDisruptionBudget")]:
        selector = it["spec"]["selector"]["matchLabels"]
        chosen = [name for name, labels in templates.items() if selector.items() <= labels.items()]
        assert chosen == [it["metadata"]["name"]]
        assert "app.kubernetes.io/version" not in selector
    [network] = of_kind("NetworkPolicy")
    assert all(network["spec"]["podSelector"]["matchLabels"].items() <= it.items() for it in templates.values())


def test_every_object_is_marked_as_ours_with_its_version_and_has_a_known_place() -> None:
    found = install_objects(EVERYTHING)
    for it in found:
        labels = it["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == labels["app.kubernetes.io/managed-by"] == "allhands"
        assert labels["app.kubernetes.io/version"] == __version__
        is_namespaced = COLLECTIONS[it["kind"]][1]
        assert it["metadata"].get("namespace", "") == ("elsewhere" if is_namespaced else "")
        assert it["apiVersion"] == COLLECTIONS[it["kind"]][0].api_version
    assert len({place_of(it) for it in found}) == len(found)
    assert found[: len(kind_objects())] == kind_objects()


def test_another_policy_is_another_pod_template() -> None:
    def scheduler(policy: str) -> Manifest:
        template: Manifest = of_kind("Deployment", InstallOptions(policy=policy))[0]["spec"]["template"]
        return template

    assert scheduler("a") != scheduler("b")
    assert of_kind("ConfigMap", InstallOptions()) == []
    assert of_kind("ConfigMap")[0]["data"]["policy.yaml"] == POLICY


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (InstallOptions(namespace="kube-system"), "the cluster's own"),
        (InstallOptions(namespace="A b"), "namespace: 'A b': a lowercase RFC 1123 label"),
        (InstallOptions(replicas=0), "replicas: 0 is not between 1 and 9"),
        (InstallOptions(image="Upper"), "image: 'Upper' is no image"),
        (InstallOptions(image="a b"), "image: 'a b' is no image"),
        (InstallOptions(scheduler_names=()), "scheduler-name: at least one is needed"),
        (InstallOptions(scheduler_names=("a", "a")), "scheduler-name: each can be given once"),
        (InstallOptions(scheduler_names=("a_b",)), "scheduler-name: 'a_b'"),
        (InstallOptions(api_ports=(0,)), "api-port: 0 is not between 1 and 65535"),
        (InstallOptions(pull_secrets=("A",)), "image-pull-secret: 'A'"),
        (InstallOptions(metrics_secret="A"), "metrics-secret: 'A'"),
    ],
)
def test_what_cannot_be_installed_is_refused_with_the_option_and_the_reason(
    options: InstallOptions, words: str
) -> None:
    with pytest.raises(OptionError) as caught:
        options.check()
    assert words in str(caught.value)


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(OptionError) as caught:
        InstallOptions(replicas=10, image="A", namespace="").check()
    assert {line.partition(":")[0] for line in str(caught.value).splitlines()} == {"replicas", "image", "namespace"}
    assert EVERYTHING.check() is EVERYTHING


def test_what_the_chart_takes_from_the_code_is_up_to_date() -> None:
    """If not: `python tools/chart.py`."""
    assert {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.iterdir())} == files()
    chart = yaml.safe_load((FOLDER.parent / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == chart["version"] == __version__
