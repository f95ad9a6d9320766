"""`allhands install`: brings our kinds, rights and processes into a cluster, or prints what it would bring."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allhands.cli.cluster import cluster_options, speak

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.cli.cluster import Session, Target
    from allhands.runtime.installation import InstallOptions


@click.command("install", short_help="Bring allhands into a cluster, or print what that would be.")
@click.option("--dry-run", is_flag=True, help="Change nothing: let the server check, or with -o print the objects.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), help="With --dry-run: print; asks no cluster.")
@click.option("--image", default="", metavar="IMAGE", help="What runs.  [default: allhands:VERSION]")
@click.option("--image-pull-secret", "pull_secrets", multiple=True, metavar="NAME", help="To pull it with.")
@click.option(
    "--scheduler-name", "scheduler_names", multiple=True, metavar="NAME", help="Whose pods.  [default: allhands]"
)
@click.option("--replicas", type=int, default=2, show_default=True, help="Of each part; one leads, the others wait.")
@click.option("--policy", type=click.Path(path_type=Path), metavar="FILE", help="How to decide. (docs/policy.md)")
@click.option(
    "--api-port",
    "api_ports",
    type=int,
    multiple=True,
    metavar="PORT",
    help="Of the API server, for the network policy.  [default: 443, 6443]",
)
@click.option("--metrics-secret", default="", metavar="NAME", help="Its key `token` opens /metrics. Nothing else does.")
@click.option("--webhooks", is_flag=True, help="Also check and complete jobs and queues before they are stored.")
@click.option("--kinds-only", is_flag=True, help="Only our kinds: enough for a scheduler outside the cluster.")
@click.option("--wait", is_flag=True, help="Until all replicas are available.")
@click.option("--timeout", default="2m", show_default=True, help="How long --wait waits.")
@cluster_options()
def command(
    target: Target,
    dry_run: bool,
    output: str | None,
    image: str,
    pull_secrets: tuple[str, ...],
    scheduler_names: tuple[str, ...],
    replicas: int,
    policy: Path | None,
    api_ports: tuple[int, ...],
    metrics_secret: str,
    webhooks: bool,
    kinds_only: bool,
    wait: bool,
    timeout: str,
) -> None:
    """Bring the kinds, the namespace, service accounts with the least rights that they need, and two replicas each of
    the scheduler and the controllers into the cluster of the kubeconfig. Doing it again changes only what is
    different, so it is also how to upgrade. -n names the namespace [default: allhands-system].

    \b
    Examples:
      allhands install --kubeconfig FILE --image IMAGE --wait
      allhands install --dry-run -o yaml > allhands.yaml
      allhands install --kinds-only          then `allhands scheduler --kubeconfig FILE` from anywhere
    """
    from allhands.cli.wait import timeout_seconds  # noqa: PLC0415 (`--help` must not pay for it)
    from allhands.runtime.installation import InstallOptions, install_objects, kind_objects  # noqa: PLC0415

    if output and not dry_run:
        raise click.UsageError("-o prints what would be installed; it needs --dry-run")
    seconds = timeout_seconds(timeout)
    given = {
        "namespace": target.namespace,
        "image": image,
        "scheduler_names": scheduler_names,
        "pull_secrets": pull_secrets,
        "api_ports": api_ports,
        "policy": _policy_text(policy),
        "metrics_secret": metrics_secret,
        "webhooks": webhooks,
    }
    options = _checked(InstallOptions(replicas=replicas, **{key: value for key, value in given.items() if value}))  # type: ignore[arg-type]
    manifests = kind_objects() if kinds_only else install_objects(options)
    if output:
        click.echo(_printed(manifests, output), nl=False)
        return

    async def talk(session: Session) -> None:
        await _install(session, options, manifests, dry_run=dry_run, wait_seconds=seconds if wait else 0.0)

    speak(target, talk)


def _checked(options: InstallOptions) -> InstallOptions:
    from allhands.runtime.installation import OptionError  # noqa: PLC0415

    try:
        return options.check()
    except OptionError as error:
        raise click.UsageError(f"this cannot be installed:\n  {str(error).replace(chr(10), f'{chr(10)}  ')}") from None


def _policy_text(file: Path | None) -> str:
    """The file as it is, after it was found to make sense: a scheduler must not fail by it in the cluster."""
    from allhands.cli.policy_file import policy_of_file  # noqa: PLC0415

    if file is None:
        return ""
    policy_of_file(file)
    return file.read_text(encoding="utf-8")


def _printed(manifests: list[Manifest], output: str) -> str:
    """YAML documents, or one List as JSON: both are what kubectl takes."""
    from allhands.cli.output import value_text  # noqa: PLC0415

    if output == "json":
        return value_text({"apiVersion": "v1", "kind": "List", "items": manifests}, "json") + "\n"
    return "".join(f"---\n{value_text(it, 'yaml')}\n" for it in manifests)


async def _install(
    session: Session, options: InstallOptions, manifests: list[Manifest], *, dry_run: bool, wait_seconds: float | None
) -> None:
    from allhands.runtime.installation.applying import Done, Installer  # noqa: PLC0415
    from allhands.runtime.installation.permissions import INSTALLING, require, rights_for  # noqa: PLC0415
    from allhands.runtime.installation.places import InstallationError  # noqa: PLC0415
    from allhands.runtime.installation.waiting import until_ready  # noqa: PLC0415

    def say(done: Done) -> None:
        for warning in done.warnings:
            click.echo(f"Warning: {done.place}: {warning}", err=True)
        click.echo(f"{done}{' (dry run)' if dry_run else ''}")

    try:
        kinds = [str(it["kind"]) for it in manifests]
        await require(session.objects, rights_for(kinds, INSTALLING, options.namespace))
        await Installer(session.objects, say, dry_run=dry_run).install(manifests)
        if wait_seconds != 0.0 and not dry_run:
            await until_ready(session.objects, manifests, float("inf") if wait_seconds is None else wait_seconds)
    except InstallationError as error:
        raise click.ClickException(str(error)) from None
