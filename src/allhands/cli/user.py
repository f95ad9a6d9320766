"""`allhands user`: who else may use an embedded cluster. It works on the data folder, with or without a cluster."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allhands.cli.grid_text import grid_lines, say
from allhands.cli.up import default_folder

if TYPE_CHECKING:
    from collections.abc import Callable

KUBECONFIGS = "users"
"""The folder of the kubeconfigs that nobody has asked to be elsewhere."""

_DATA = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_folder,
    metavar="DIR",
    help="Folder of the embedded cluster. [default: ~/.allhands]",
)
_KUBECONFIG = click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    metavar="FILE",
    help="Where their kubeconfig is written. [default: DIR/users/NAME.kubeconfig]",
)


@click.group("user", short_help="Let more people use an embedded cluster.")
def command() -> None:
    """Let more people use an embedded cluster: each has a token of their own.

    A cluster that runs knows at the next request what is changed here. What somebody may do is asked only if it runs
    with --rbac; without it whoever has a token may do everything.

    \b
    Examples:
      allhands user add ada --group team-a
      allhands user add grace --kubeconfig ./grace.kubeconfig
      allhands user list
      allhands user token ada
      allhands user remove ada
    """


@command.command("add")
@click.argument("name")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="A group that they are in; may be repeated.")
@_KUBECONFIG
@_DATA
def add(name: str, groups: tuple[str, ...], kubeconfig: Path | None, data: Path) -> None:
    """Let somebody in, and write the kubeconfig to give them."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    server = _server_of(data)
    token = _asked(lambda people: people.add(name, groups, now), data)
    path = _write(name, token, kubeconfig, data, server)
    click.echo(f"user {name} added; their kubeconfig: {path}")
    _tell_of_rights(name, groups, data)


@command.command("token")
@click.argument("name")
@_KUBECONFIG
@_DATA
def renew(name: str, kubeconfig: Path | None, data: Path) -> None:
    """Give somebody a new token, and write it into their kubeconfig. The old token is worth nothing at once."""
    server = _server_of(data)
    token = _asked(lambda people: people.renew(name), data)
    path = _write(name, token, kubeconfig, data, server)
    click.echo(f"user {name} has a new token; their kubeconfig: {path}")


@command.command("remove")
@click.argument("name")
@_DATA
def remove(name: str, data: Path) -> None:
    """Let somebody in no more. Bindings that name them stay."""
    _asked(lambda people: people.remove(name), data)
    (data / KUBECONFIGS / f"{name}.kubeconfig").unlink(missing_ok=True)
    click.echo(f"user {name} removed; bindings that name them are still there, for a later user of that name too")


@command.command("list")
@_DATA
def listing(data: Path) -> None:
    """List everybody who has a token."""
    people = _asked(lambda people: people.all(), data)
    rows = [["admin", "system:masters", "(the file token)"]]
    rows += [[it.name, ",".join(it.groups) or "-", it.since] for it in people]
    for line in grid_lines(["NAME", "GROUPS", "SINCE"], rows, width=None):
        say(line)


def _asked(do: Callable[[Any], Any], data: Path) -> Any:
    from allhands.server.access.people import People, PeopleError  # noqa: PLC0415 (`--help` must not pay for it)

    if not data.is_dir():
        raise click.ClickException(f"there is no folder {data}: start a cluster with it first, by `allhands up`")
    try:
        return do(People(data))
    except PeopleError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"cannot use {error.filename or data}: {error.strerror or error}") from None


def _server_of(data: Path) -> dict[str, Any]:
    """Where the cluster is, and whom to trust, as its own kubeconfig says: of the entry `cluster`."""
    import yaml  # noqa: PLC0415

    path = data / "kubeconfig"
    try:
        found = yaml.safe_load(path.read_bytes())
        return dict(found["clusters"][0]["cluster"])
    except FileNotFoundError:
        raise click.ClickException(
            f"there is no {path}: start the cluster once, by `allhands up`, then add users"
        ) from None
    except (OSError, yaml.YAMLError, LookupError, TypeError, ValueError) as error:
        raise click.ClickException(f"cannot read {path}: {error}; start the cluster once, by `allhands up`") from None


def _write(name: str, token: str, kubeconfig: Path | None, data: Path, server: dict[str, Any]) -> Path:
    import base64  # noqa: PLC0415

    from allhands.server.kubeconfig import write_kubeconfig  # noqa: PLC0415

    folder = data / KUBECONFIGS
    path = kubeconfig or folder / f"{name}.kubeconfig"
    try:
        if kubeconfig is None:
            folder.mkdir(exist_ok=True, mode=0o700)
        authority = base64.b64decode(server["certificate-authority-data"])
        write_kubeconfig(path, server["server"], authority, token, name=f"allhands-{name}")
    except OSError as error:
        why = f"cannot write {path}: {error.strerror or error}"
        raise click.ClickException(f"{why}; `allhands user token {name} --kubeconfig FILE` writes another") from None
    return path


def _tell_of_rights(name: str, groups: tuple[str, ...], data: Path) -> None:
    from allhands.compose.access_settings import AccessSettingsError, remembered  # noqa: PLC0415

    try:
        has_rights = remembered(data).rbac
    except AccessSettingsError as error:
        raise click.ClickException(str(error)) from None
    if not has_rights:
        click.echo("Whoever has a token may do everything there: start it with `allhands up --rbac` to look at rights.")
    elif "system:masters" not in groups:
        click.echo(f"Give them rights, for example: kubectl create rolebinding {name} --clusterrole=edit --user={name}")
