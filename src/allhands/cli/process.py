"""What the processes beside a real cluster share as commands: their options, and how they end.

It ends by SIGTERM or Ctrl-C, clean and with code 0; what keeps it from beginning is one sentence and code 1.
"""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
import signal
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from allhands.cli.cluster import find_kubeconfig, kubeconfig_files, sentence_of
from allhands.cli.log_options import log_options
from allhands.cli.policy_file import policy_of_file

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine

    from allhands.compose.process import ProcessOptions
    from allhands.kube.access import Access

F = TypeVar("F", bound="Callable[..., Any]")
MOST_PORT = 65535
UNAUTHORIZED = 401


class Started(NamedTuple):
    """What the user said about the process."""

    kubeconfig: Path | None
    context: str
    scheduler_names: tuple[str, ...]
    leader_elect: bool
    lease_namespace: str
    metrics_address: tuple[str, int]
    metrics_token_file: Path | None
    policy: Path | None = None


class AddressType(click.ParamType["tuple[str, int]"]):
    """HOST:PORT."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > MOST_PORT:
            self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:8080; port 0 takes a free one", param, ctx)
        return host.strip("[]"), int(port)


def process_options(function: F, *, without: Collection[str] = ()) -> F:
    """The command gets them together as `started`, with `policy` if it has such an option; its other options as they
    are. Some make no sense `without` a lease."""

    @functools.wraps(function)
    def gathered(**options: Any) -> None:
        if not options["scheduler_names"]:
            options["scheduler_names"] = ("allhands",)
        shared = {name: options.pop(name) for name in Started._fields if name in options}
        function(started=Started(**{"leader_elect": False, **shared}), **options)

    decorated: Any = log_options(gathered, "info")
    for name, option in reversed(_OPTIONS.items()):
        decorated = decorated if name in without else option(decorated)
    return decorated  # type: ignore[no-any-return]


_OPTIONS = {
    "kubeconfig": click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        help="Kubeconfig file. [default: the pod's service account, $KUBECONFIG or ~/.kube/config]",
    ),
    "context": click.option(
        "--context", default="", metavar="NAME", help="Context of the kubeconfig. [default: its current]"
    ),
    "scheduler_names": click.option(
        "--scheduler-name",
        "scheduler_names",
        multiple=True,
        metavar="NAME",
        help="Pods with this spec.schedulerName are ours; may be given several times.  [default: allhands]",
    ),
    "leader_elect": click.option(
        "--leader-elect/--no-leader-elect",
        default=True,
        show_default=True,
        help="Work only while holding a Lease, so that several may be started.",
    ),
    "lease_namespace": click.option(
        "--lease-namespace",
        default="allhands-system",
        show_default=True,
        metavar="NAME",
        help="Where the Lease is, and what is remembered.",
    ),
    "metrics_address": click.option(
        "--metrics-address",
        type=AddressType(),
        default="127.0.0.1:0",
        show_default=True,
        help="Where /metrics, /healthz and /readyz are served; port 0 takes a free one, which is logged.",
    ),
    "metrics_token_file": click.option(
        "--metrics-token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Who reads /metrics must show the token in it. Beyond loopback nobody may without.",
    ),
}


def run_process(started: Started, run: Callable[[Access, ProcessOptions], Coroutine[Any, Any, None]]) -> None:
    begin_process(started, lambda access, load_options: run(access, load_options()))


def begin_process(
    started: Started, begin: Callable[[Access, Callable[[], ProcessOptions]], Coroutine[Any, Any, None]]
) -> None:
    """As `run_process`, for one who has something to do before the options are loaded: that takes a while."""
    where = "the pod's service account"
    try:
        access, where = _access(started)
        asyncio.run(_until_stopped(begin(access, functools.partial(_options_of, started))))
    except Exception as error:
        if (sentence := _sentence_of(error, started, where)) is None:
            raise
        raise click.ClickException(sentence) from None


def _sentence_of(error: Exception, started: Started, where: str) -> str | None:
    """What a user is told; None of what is a mistake of ours."""
    from allhands.api.errors import StatusError  # noqa: PLC0415 (only who fails needs to know)
    from allhands.compose.process import MissingRightsError  # noqa: PLC0415
    from allhands.kube.kubeconfig import KubeconfigError  # noqa: PLC0415

    match error:
        case KubeconfigError():
            return str(error)
        case MissingRightsError():
            return f"{error} (with {where})"
        case StatusError():
            return _refused(sentence_of(error), error.code, where)
        case TimeoutError():
            return f"the server does not answer (from {where})"
        case ssl.SSLError():
            return f"{where}: its certificates cannot be used: {error.reason or error}"
        case OSError():
            what = error.filename or "{}:{}".format(*started.metrics_address)
            return f"{what}: {error.strerror or error}"
    return None


def _refused(sentence: str, code: int, where: str) -> str:
    if code == UNAUTHORIZED:
        return f"{sentence}: the server does not accept the credentials in {where}"
    return f"{sentence} (from {where})"


def _access(started: Started) -> tuple[Access, str]:
    from allhands.kube import in_cluster, kubeconfig  # noqa: PLC0415

    if started.kubeconfig is None and not os.environ.get("KUBECONFIG") and in_cluster.is_in_cluster():
        return in_cluster.load(), "the pod's service account"
    path = find_kubeconfig(started.kubeconfig)
    return kubeconfig.load(kubeconfig_files(started.kubeconfig), started.context), str(path)


def _options_of(started: Started) -> ProcessOptions:
    from allhands.compose.process import ProcessOptions  # noqa: PLC0415
    from allhands.core.policy import DEFAULT  # noqa: PLC0415

    host, port = started.metrics_address
    token = ""
    if started.metrics_token_file is not None:
        token = started.metrics_token_file.read_text(encoding="utf-8").strip()
        if not token:
            raise click.ClickException(f"{started.metrics_token_file}: holds no token")
    return ProcessOptions(
        scheduler_names=started.scheduler_names,
        policy=DEFAULT if started.policy is None else policy_of_file(started.policy),
        leads_by_lease=started.leader_elect,
        lease_namespace=started.lease_namespace,
        identity=f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}",
        metrics_host=host,
        metrics_port=port,
        metrics_token=token,
    )


async def _until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """The first signal ends it in order; a second one at once, as if nobody had listened."""
    loop = asyncio.get_running_loop()
    working = asyncio.create_task(work, name="process")
    stopped = False

    def stop() -> None:
        nonlocal stopped
        stopped = True
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)
        working.cancel()

    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stop)
    try:
        await working
    except asyncio.CancelledError:
        if not stopped:
            raise
