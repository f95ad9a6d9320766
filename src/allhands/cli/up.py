"""`allhands up`: an embedded cluster that runs until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import shlex
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allhands.cli.log_options import log_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from allhands.compose.access_settings import AccessWish
    from allhands.compose.embedded import EmbeddedCluster

MAX_NODES = 100_000
_SERVER = re.compile(r"server: https://127\.0\.0\.1:([0-9]{1,5})\b")
MAX_GPUS = 1_000
LOCAL_NODE = "local"
UNSERVED_NAMED = 5


def default_folder() -> Path:
    return Path(click.get_app_dir("allhands", force_posix=True)).expanduser()


@click.command("up", short_help="Start an embedded cluster that your own kubectl can talk to.")
@click.option(
    "--nodes",
    type=click.IntRange(0, MAX_NODES),
    default=None,
    help="How many simulated nodes it has at least.  [default: 3 in a new cluster, with --local none]",
)
@click.option("--local", is_flag=True, help="Add this machine as a node: its pods really run, as processes of yours.")
@click.option("--node-cpu", default="8", show_default=True, metavar="QUANTITY", help="CPU of each node.")
@click.option("--node-memory", default="32Gi", show_default=True, metavar="QUANTITY", help="Memory of each node.")
@click.option("--node-gpus", type=click.IntRange(0, MAX_GPUS), default=0, show_default=True, help="GPUs of each node.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_folder,
    metavar="DIR",
    help="Folder for its objects, the kubeconfig, the certificates and the token. [default: ~/.allhands]",
)
@click.option("--ephemeral", is_flag=True, help="Keep objects in memory only: they end with it.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    help="Port on loopback; 0 takes a free one. [default: that of the last time, if it is free]",
)
@click.option(
    "--rbac/--no-rbac",
    default=None,
    help="Look at users' rights: roles and bindings decide. [default: as the folder remembers; a new one does not]",
)
@click.option(
    "--audit",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    metavar="FILE",
    help="Log every request to FILE, one JSON line each. The folder remembers it.",
)
@click.option("--no-audit", is_flag=True, help="Do not log requests any more.")
@log_options
def command(
    nodes: int | None,
    local: bool,
    node_cpu: str,
    node_memory: str,
    node_gpus: int,
    data: Path,
    ephemeral: bool,
    port: int | None,
    rbac: bool | None,
    audit: Path | None,
    no_audit: bool,
) -> None:
    """Start an embedded cluster on loopback and keep it running until Ctrl-C: API, scheduler, controllers and nodes.

    What it has said is done is on disk, and is there again the next time, whatever ended it. A stock kubectl works
    against it with the kubeconfig it writes. Pods on simulated nodes only pretend to run; with --local, commands of
    containers run as processes, without isolation.

    \b
    Examples:
      allhands up
      allhands up --local
      allhands up --nodes 100 --node-cpu 64 --node-memory 512Gi --node-gpus 8
      allhands up --data ./cluster --port 6443
      allhands up --ephemeral --data /tmp/try
      allhands up --rbac --audit ./audit.log
    """
    from allhands.compose.access_settings import AccessSettingsError, AccessWish  # noqa: PLC0415
    from allhands.compose.nodes import NodeSize  # noqa: PLC0415 (`--help` must not pay for a server)
    from allhands.store.datafile import DataFileError  # noqa: PLC0415

    size = NodeSize(quantity("--node-cpu", node_cpu), quantity("--node-memory", node_memory), node_gpus)
    if audit is not None and no_audit:
        raise click.UsageError("--audit and --no-audit contradict each other")
    wish = AccessWish(rbac=rbac, audit=audit, no_audit=no_audit)
    lost_port = 0
    if port is None:
        port = _last_port(data)
        if port and not _is_free(port):
            lost_port, port = port, 0
    ending = _Ending()
    try:
        asyncio.run(
            _run(nodes, size, data.absolute(), port, ending, lost_port, wish, local=local, durable=not ephemeral)
        )
    except (DataFileError, AccessSettingsError) as error:
        raise click.ClickException(str(error)) from None
    except (asyncio.CancelledError, KeyboardInterrupt):
        click.echo("Stopped before it was ready.", err=True)
        raise SystemExit(128 + ending.by) from None
    except OSError as error:
        raise click.ClickException(f"{_blamed(error, port)}: {error.strerror or error}") from None


def _blamed(error: OSError, port: int) -> str:
    """What cannot be had: a file has a name, an address has none."""
    if error.filename is not None:
        return f"cannot use {error.filename}"
    is_address = error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
    return f"cannot start on port {port}" if is_address else "cannot start"


class _Ending:
    """Which signal has ended it."""

    by = signal.SIGINT


def _last_port(data: Path) -> int:
    """The port of the kubeconfig that is there, so that whoever uses it finds the cluster again; 0 if there is none."""
    try:
        found = _SERVER.search((data / "kubeconfig").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return 0
    return int(found[1]) if found else 0


def _is_free(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True


def quantity(option: str, text: str) -> str:
    """A positive Kubernetes quantity in canonical form, or a sentence about what is wrong with it."""
    from allhands.model.quantity import Quantity, QuantityError  # noqa: PLC0415

    try:
        parsed = Quantity.parse(text)
    except QuantityError as error:
        raise click.BadParameter(
            f"{text!r} is not a quantity such as 8, 500m or 32Gi: {error}", param_hint=option
        ) from None
    if parsed.nanos <= 0:
        raise click.BadParameter(f"{text!r} must be more than zero", param_hint=option)
    return str(parsed)


def _on_signals(loop: asyncio.AbstractEventLoop, do: Callable[[signal.Signals], object]) -> None:
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, do, name)


async def _run(
    nodes: int | None,
    size: object,
    data: Path,
    port: int,
    ending: _Ending,
    lost_port: int,
    wish: AccessWish,
    *,
    local: bool,
    durable: bool,
) -> None:
    from allhands.agents.local_node import LocalNode  # noqa: PLC0415
    from allhands.compose.embedded import embedded  # noqa: PLC0415
    from allhands.compose.embedded_data import data_file  # noqa: PLC0415
    from allhands.compose.machine import spare_the_collector  # noqa: PLC0415
    from allhands.compose.system import SystemOptions  # noqa: PLC0415

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    starting = asyncio.current_task()
    assert starting is not None

    def give_up(name: signal.Signals) -> None:
        ending.by = name
        starting.cancel()

    _on_signals(loop, give_up)
    began = time.monotonic()
    if nodes is None and local:
        nodes = 0
    system = SystemOptions(
        process_node=LocalNode(name=LOCAL_NODE) if local else None,
        process_folder=data / "pods",
        volume_folder=str(data / "volumes"),
    )
    starting_cluster = embedded(
        data,
        nodes=nodes,
        size=size,  # type: ignore[arg-type]
        port=port,
        system=system,
        durable=durable,
        access=wish,
    )
    async with starting_cluster as cluster:
        _on_signals(loop, lambda _: stop.set())
        seconds = time.monotonic() - began
        spare_the_collector()
        _greet(cluster, seconds, local=local)
        if lost_port:
            click.echo(
                f"Port {lost_port}, that of the last time, is taken: kubeconfigs that were copied no longer work.\n"
                f"Copy {cluster.kubeconfig} anew, or free the port and start again with --port {lost_port}.",
                err=True,
            )
        click.echo(_farewell(data_file(data), durable=durable))
        await stop.wait()
        click.echo("\nStopping.", err=True)


def _greet(cluster: EmbeddedCluster, seconds: float, *, local: bool) -> None:
    what = _nodes_in_words(cluster.simulated_nodes(), len(cluster.unserved), local=local)
    click.echo(f"An embedded cluster {what} is ready at {cluster.url} ({seconds:.1f} s).")
    for line in _about_unserved(cluster.unserved):
        click.echo(line)
    if cluster.access.rbac:
        click.echo("Users may do what roles allow them (RBAC); --no-rbac ends that.")
    if cluster.access.audit:
        click.echo(f"Requests are logged to {cluster.access.audit}; --no-audit ends that.")
    if cluster.found:
        click.echo(f"It goes on with {cluster.found} objects from before.")
    click.echo(f"kubeconfig: {cluster.kubeconfig}\n")
    click.echo("Try next, in another terminal:")
    click.echo(f"  export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
    click.echo("  kubectl get nodes -o wide")
    click.echo("  kubectl create job hello --image=busybox -- echo hello")
    click.echo("  allhands jobs\n")


def _nodes_in_words(simulated: int, unserved: int, *, local: bool) -> str:
    """What there is to run pods, as part of a sentence."""
    kinds = [f"{simulated} simulated {'node' if simulated == 1 else 'nodes'}"] if simulated else []
    if local:
        kinds.append("this machine" if simulated else "this machine as its node")
    if kinds:
        return f"with {' and '.join(kinds)}"
    return "without a node that is served" if unserved else "without nodes"


def _about_unserved(names: tuple[str, ...]) -> list[str]:
    """A line for each of the first few; the rest as a number."""
    lines = [
        f"node {name} is kept but not served now{'; start with --local' if name == LOCAL_NODE else ''}: "
        "nothing is scheduled to it"
        for name in names[:UNSERVED_NAMED]
    ]
    if len(names) > UNSERVED_NAMED:
        lines.append(f"and {len(names) - UNSERVED_NAMED} more nodes that are not served now")
    return lines


def _farewell(file: Path, *, durable: bool) -> str:
    if durable:
        return f"Ctrl-C stops it; everything is kept in {file}."
    beside = f" What is in {file} was not touched." if file.exists() else ""
    return f"Ctrl-C stops it; nothing is kept but the folder of the kubeconfig.{beside}"
