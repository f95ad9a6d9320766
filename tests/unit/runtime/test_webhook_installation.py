"""What an installation with webhooks has more than one without, and that it is allowed what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from allhands.cli import root
from allhands.compose.process import ProcessOptions
from allhands.runtime.installation import InstallOptions, install_objects
from allhands.runtime.installation.places import place_of
from allhands.runtime.installation.rights import WEBHOOKS, WEBHOOKS_AT_HOME
from allhands.runtime.installation.webhooks import MUTATING, NAME, VALIDATING
from allhands.server.webhooks.others import WATCHED
from allhands.server.webhooks.submitters import REVIEWS

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.runtime.installation.rights import Rule

PLAIN = install_objects(InstallOptions())
WITH = install_objects(InstallOptions(webhooks=True, namespace="home", scheduler_names=("a",)))


def the(kind: str, name: str = NAME) -> Manifest:
    return next(it for it in WITH if (it["kind"], it["metadata"]["name"]) == (kind, name))


def test_without_the_option_there_is_nothing_of_it() -> None:
    assert not [it for it in PLAIN if "webhooks" in it["metadata"]["name"]]


def test_with_it_there_is_more_and_the_configurations_come_last() -> None:
    more = [(it["kind"], it["metadata"]["name"]) for it in WITH if "webhooks" in it["metadata"]["name"]]
    kinds = [kind for kind, name in more if name == NAME]
    assert sorted(kinds) == sorted(
        [
            "ServiceAccount",
            "ClusterRole",
            "ClusterRoleBinding",
            "Role",
            "RoleBinding",
            "Deployment",
            "PodDisruptionBudget",
            "Secret",
            "Service",
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
        ]
    )
    assert [it["kind"] for it in WITH[-2:]] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    assert len({place_of(it) for it in WITH}) == len(WITH)


def test_nothing_that_the_process_writes_is_stated_so_that_installing_again_takes_nothing_away() -> None:
    assert "data" not in the("Secret")
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        assert all("caBundle" not in it["clientConfig"] for it in the(kind)["webhooks"])


def test_the_service_leads_to_the_port_of_the_pods_and_the_network_lets_it_in() -> None:
    template = the("Deployment")["spec"]["template"]
    service = the("Service")["spec"]
    assert service["selector"].items() <= template["metadata"]["labels"].items()
    ports = {it["name"]: it["containerPort"] for it in template["spec"]["containers"][0]["ports"]}
    assert service["ports"][0]["targetPort"] in ports
    entrances = [it["port"] for it in the("NetworkPolicy", "allhands")["spec"]["ingress"][0]["ports"]]
    assert sorted(entrances) == sorted(ports.values())


def test_our_command_takes_the_arguments() -> None:
    name, *arguments = the("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    command = root.get_command(click.Context(root), name)
    assert command is not None
    parameters = command.make_context(name, arguments).params
    assert parameters["scheduler_names"] == ("a",)
    assert parameters["lease_namespace"] == "home"
    assert parameters["address"] == ("0.0.0.0", 8443)
    assert ProcessOptions().lease_namespace == InstallOptions().namespace


def verbs(rules: tuple[Rule, ...], group: str, resource: str) -> set[str]:
    return {verb for rule in rules if rule.group == group and resource in rule.resources for verb in rule.verbs}


def test_it_may_read_what_it_asks_about_and_writes_only_what_is_its_own_by_name() -> None:
    for it in WATCHED:
        assert verbs(WEBHOOKS, it.group, it.plural) == {"get", "list", "watch"}
    assert verbs(WEBHOOKS, REVIEWS.group, REVIEWS.plural) == {"create"}
    for it in (MUTATING, VALIDATING):
        assert verbs(WEBHOOKS, it.group, it.plural) == {"get", "update"}
    named = [rule for rule in (*WEBHOOKS, *WEBHOOKS_AT_HOME) if "update" in rule.verbs]
    assert all(rule.names == (NAME,) for rule in named)
    assert WEBHOOKS_AT_HOME[0].verbs == ("get", "update")
    assert len(WEBHOOKS) == len(WATCHED) + 2


@pytest.mark.parametrize("value", ["http://x", "https://", "x", "https://a?b", "https://me@a"])
def test_an_address_that_no_api_server_calls_is_refused(value: str) -> None:
    command = root.get_command(click.Context(root), "webhooks")
    assert command is not None
    with pytest.raises(click.BadParameter, match="https://HOST:PORT"):
        command.make_context("webhooks", [f"--url={value}"])
