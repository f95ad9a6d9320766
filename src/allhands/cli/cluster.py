"""Which cluster a command speaks to, and how its failures are told: as a sentence and an exit code, never a traceback.

The kubeconfig is the one that is named, else $KUBECONFIG, else that of the embedded cluster, else ~/.kube/config.
"""

from __future__ import annotations

import asyncio
import functools
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from allhands.cli import INTERRUPTED
from allhands.cli.up import default_folder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from allhands.api.document import Manifest
    from allhands.api.errors import StatusError
    from allhands.api.kinds import Resource
    from allhands.kube.kubeconfig import Access
    from allhands.kube.objects import KubeObjects

F = TypeVar("F", bound="Callable[..., Any]")
T = TypeVar("T")

DEFAULT_NAMESPACE = "default"
PAGE_SIZE = 500


class Target(NamedTuple):
    """What the user said about where to look."""

    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = ""
    everywhere: bool = False


def cluster_options(*, everywhere: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """--kubeconfig, --context, -n and, with `everywhere`, -A; the command gets them together as `target`."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def gathered(
            kubeconfig: Path | None, context: str, namespace: str, *, all_namespaces: bool = False, **others: Any
        ) -> None:
            if all_namespaces and namespace:
                raise click.UsageError("-n and -A say different things; give one of them")
            function(target=Target(kubeconfig, context, namespace, all_namespaces), **others)

        for option in _options(everywhere=everywhere):
            gathered = option(gathered)
        return gathered

    return decorate


def _options(*, everywhere: bool) -> list[Callable[[F], F]]:
    options = [
        click.option("-n", "--namespace", default="", metavar="NAME", help="Namespace. [default: the kubeconfig's]"),
        click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig. [default: its current]"),
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            help="Kubeconfig file. [default: $KUBECONFIG, ~/.allhands/kubeconfig or ~/.kube/config]",
        ),
    ]
    if everywhere:
        options.insert(0, click.option("-A", "--all-namespaces", is_flag=True, help="Look at all namespaces."))
    return options


def find_kubeconfig(named: Path | None) -> Path:
    """The file to use; refuses with the list of where it looked."""
    if named is not None:
        return named
    listed = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return next((path for part in listed if (path := Path(part).expanduser()).exists()), Path(listed[0]))
    places = [default_folder() / "kubeconfig", Path("~/.kube/config").expanduser()]
    for place in places:
        if place.exists():
            return place
    looked = " nor ".join(str(place) for place in places)
    raise click.ClickException(
        f"there is no kubeconfig: $KUBECONFIG is not set, and neither {looked} exists. "
        "Name one with --kubeconfig, or start a cluster with `allhands up`."
    )


def kubeconfig_files(named: Path | None) -> tuple[Path, ...]:
    """All files that are read: several in $KUBECONFIG are merged."""
    from allhands.kube.kubeconfig import default_paths  # noqa: PLC0415 (`--help` must not pay for it)

    if named is None and os.environ.get("KUBECONFIG"):
        return default_paths()
    return (find_kubeconfig(named),)


class Session(NamedTuple):
    """An open way into a cluster."""

    objects: KubeObjects
    access: Access
    namespace: str
    """The one that was asked for, or the kubeconfig's."""
    everywhere: bool = False

    @property
    def scope(self) -> str:
        """For queries: empty means all namespaces."""
        return "" if self.everywhere else self.namespace


async def all_of(session: Session, resource: Resource, namespace: str = "", selector: str = "") -> list[Manifest]:
    """Every object of a kind, page by page."""
    import msgspec  # noqa: PLC0415 (`--help` must not pay for it)

    from allhands.ports import Query  # noqa: PLC0415

    found: list[Manifest] = []
    token = ""
    while True:
        query = Query(namespace=namespace, labels=selector, limit=PAGE_SIZE, continue_token=token)
        page = await session.objects.list(resource, query)
        found += [msgspec.json.decode(raw) for raw in page.items]
        token = page.continue_token
        if not token:
            return found


def speak(target: Target, talk: Callable[[Session], Awaitable[T]]) -> T:
    """Runs the talk with a cluster. Whatever goes wrong on the way becomes a sentence."""
    from allhands.api.errors import StatusError  # noqa: PLC0415 (`--help` must not pay for it)
    from allhands.kube.kubeconfig import KubeconfigError  # noqa: PLC0415

    path = find_kubeconfig(target.kubeconfig)
    try:
        return asyncio.run(_session(target, talk))
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except KubeconfigError as error:
        raise click.ClickException(str(error)) from None
    except StatusError as refusal:
        raise click.ClickException(f"{sentence_of(refusal)}{_hint(refusal, path)}") from None
    except ssl.SSLError as error:
        raise click.ClickException(f"{path}: its certificates cannot be used: {error.reason or error}") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"{error.filename or path}: {error.strerror or error}") from None


async def _session(target: Target, talk: Callable[[Session], Awaitable[T]]) -> T:
    from allhands.kube import kubeconfig  # noqa: PLC0415
    from allhands.kube.objects import KubeObjects  # noqa: PLC0415

    access = kubeconfig.load(kubeconfig_files(target.kubeconfig), target.context)
    async with KubeObjects(access) as objects:
        namespace = target.namespace or access.namespace or DEFAULT_NAMESPACE
        return await talk(Session(objects, access, namespace, target.everywhere))


def sentence_of(refusal: StatusError) -> str:
    """What the server said, with a line for each field that it refused."""
    from allhands.cli.plan_text import printable  # noqa: PLC0415

    causes = [it for it in (refusal.details or {}).get("causes") or () if isinstance(it, dict) and it.get("field")]
    if refusal.code == 422 and causes:
        first = refusal.message.partition(":")[0]
        lines = [f"  {printable(str(it['field']))}: {printable(str(it.get('message', '')))}" for it in causes]
        return "\n".join([f"{printable(first)}:", *lines])
    return printable(refusal.message or refusal.reason or f"HTTP {refusal.code}")


def _hint(refusal: StatusError, path: Path) -> str:
    if refusal.code == 503 and refusal.reason == "ServiceUnavailable":
        is_embedded = path == default_folder() / "kubeconfig"
        return f" (from {path}). Is `allhands up` running?" if is_embedded else f" (from {path})"
    if refusal.code == 401:
        return f": the server does not accept the credentials in {path}"
    return ""
