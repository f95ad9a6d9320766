"""`allhands install` and `uninstall` without a real cluster: what they print, and what they refuse at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner, Result

from allhands.cli import root
from allhands.runtime.installation import InstallOptions, install_objects, kind_objects
from allhands.runtime.installing import KINDS
from tests.unit.server.background import Background

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def run(*arguments: str, config: Path | str = "/nonexistent/kubeconfig") -> Result:
    return CliRunner(env={"KUBECONFIG": str(config)}).invoke(root, arguments)


def test_what_would_be_installed_is_printed_without_asking_any_cluster() -> None:
    as_yaml = run("install", "--dry-run", "-o", "yaml")
    assert as_yaml.exit_code == 0, as_yaml.output
    assert list(yaml.safe_load_all(as_yaml.stdout)) == install_objects(InstallOptions())
    as_json = run("install", "--dry-run", "-o", "json", "--kinds-only")
    assert json.loads(as_json.stdout) == {"apiVersion": "v1", "kind": "List", "items": kind_objects()}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "yaml"], "it needs --dry-run"),
        (["--replicas=0", "--image=UP"], "replicas: 0 is not between 1 and 9"),
        (["--replicas=0", "--image=UP"], "image: 'UP' is no image"),
        (["-n", "kube-system"], "namespace: 'kube-system': namespaces that begin with kube- are the cluster's own"),
        (["--timeout=soon"], "soon"),
        (["--policy=/nonexistent/policy"], "/nonexistent/policy"),
        ([], "/nonexistent/kubeconfig: cannot be read"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(arguments: list[str], words: str) -> None:
    done = run("install", *arguments)
    assert done.exit_code in (1, 2)
    assert words in done.stderr
    assert not done.stdout


def test_a_policy_that_the_scheduler_would_refuse_is_refused_here(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("apiVersion: allhands.dev/v1alpha1\nkind: SchedulingPolicy\nguess: 1\n")
    done = run("install", "--dry-run", "-o", "yaml", f"--policy={policy}")
    assert done.exit_code == 1
    assert "guess" in done.stderr


def test_uninstall_wants_one_word_about_the_kinds() -> None:
    done = run("uninstall", "--purge", "--keep-kinds")
    assert done.exit_code == 2
    assert "say different things" in done.stderr


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with Background(tmp_path_factory.mktemp("embedded")) as server:
        yield server.kubeconfig


def test_the_embedded_cluster_needs_no_installation_and_says_so(embedded: Path) -> None:
    for arguments in (["install"], ["install", "--dry-run"]):
        done = run(*arguments, config=embedded)
        assert done.exit_code == 1
        assert "this is an embedded cluster, which runs the scheduler and the controllers by itself" in done.stderr
        assert not done.stdout


def test_kinds_alone_are_brought_to_any_cluster_and_taken_away_again(embedded: Path) -> None:
    names = [f"customresourcedefinition.apiextensions.k8s.io/{kind.name}" for kind in KINDS]
    for expected in ("created", "unchanged"):
        done = run("install", "--kinds-only", "--wait", config=embedded)
        assert (done.exit_code, done.stdout) == (0, "".join(f"{name} {expected}\n" for name in names)), done.output
    planned = run("uninstall", "--dry-run", config=embedded).stdout.splitlines()
    assert sorted(planned) == sorted(f"{name} deleted (dry run)" for name in names)
    done = run("uninstall", config=embedded)
    assert sorted(done.stdout.splitlines()) == sorted(f"{name} deleted" for name in names), done.output
    assert "nothing of allhands" in run("uninstall", config=embedded).stderr
