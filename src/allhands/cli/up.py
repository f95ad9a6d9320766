"""`allhands up`: an embedded cluster that runs until Ctrl-C."""

from __future__ import annotations

import asyncio
import errno
import shlex
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allhands.cli.log_options import log_options

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_NODES = 100_000
MAX_GPUS = 1_000


def default_folder() -> Path:
    return Path(click.get_app_dir("allhands", force_posix=True)).expanduser()


@click.command("up", short_help="Start an embedded cluster that your own kubectl can talk to.")
@click.option(
    "--nodes",
    type=click.IntRange(0, MAX_NODES),
    default=None,
    help="How many simulated nodes it has.  [default: 3, with --local none]",
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
    help="Folder for the kubeconfig, the certificates and the token. [default: ~/.allhands]",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback; 0 takes a free one. [default: 0]"
)
@log_options
def command(
    nodes: int | None, local: bool, node_cpu: str, node_memory: str, node_gpus: int, data: Path, port: int
) -> None:
    """Start an embedded cluster on loopback and keep it running until Ctrl-C: API, scheduler, controllers and nodes.

    Everything lives in memory and ends with it. A stock kubectl works against it with the kubeconfig it writes. Pods on
    simulated nodes only pretend to run; with --local, commands of containers run as processes, without isolation.

    \b
    Examples:
      allhands up
      allhands up --local
      allhands up --nodes 100 --node-cpu 64 --node-memory 512Gi --node-gpus 8
      allhands up --data ./cluster --port 6443
    """
    from allhands.compose.nodes import NodeSize  # noqa: PLC0415 (`--help` must not pay for a server)

    size = NodeSize(quantity("--node-cpu", node_cpu), quantity("--node-memory", node_memory), node_gpus)
    try:
        asyncio.run(_run((0 if local else 3) if nodes is None else nodes, size, data.absolute(), port, local=local))
    except asyncio.CancelledError:
        raise click.Abort from None  # a signal came before it was ready
    except OSError as error:
        raise click.ClickException(f"{_blamed(error, port)}: {error.strerror or error}") from None


def _blamed(error: OSError, port: int) -> str:
    """What cannot be had: a file has a name, an address has none."""
    if error.filename is not None:
        return f"cannot use {error.filename}"
    is_address = error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
    return f"cannot start on port {port}" if is_address else "cannot start"


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


def _on_signals(loop: asyncio.AbstractEventLoop, do: Callable[[], object]) -> None:
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, do)


async def _run(nodes: int, size: object, data: Path, port: int, *, local: bool) -> None:
    from allhands.agents.local_node import LocalNode  # noqa: PLC0415
    from allhands.compose.embedded import embedded  # noqa: PLC0415
    from allhands.compose.machine import spare_the_collector  # noqa: PLC0415
    from allhands.compose.system import SystemOptions  # noqa: PLC0415

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    starting = asyncio.current_task()
    assert starting is not None
    _on_signals(loop, starting.cancel)
    began = time.monotonic()
    system = SystemOptions(
        process_node=LocalNode(name="local") if local else None,
        process_folder=data / "pods",
        volume_folder=str(data / "volumes"),
    )
    async with embedded(data, nodes=nodes, size=size, port=port, system=system) as cluster:  # type: ignore[arg-type]
        _on_signals(loop, stop.set)
        seconds = time.monotonic() - began
        spare_the_collector()
        what = f"{nodes} simulated nodes{' and this machine' if local else ''}" if nodes else "this machine as its node"
        click.echo(f"An embedded cluster with {what} is ready at {cluster.url} ({seconds:.1f} s).")
        click.echo(f"kubeconfig: {cluster.kubeconfig}\n")
        click.echo("Try next, in another terminal:")
        click.echo(f"  export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
        click.echo("  kubectl get nodes -o wide")
        click.echo("  kubectl create job hello --image=busybox -- echo hello")
        click.echo("  allhands jobs\n")
        click.echo("Ctrl-C stops it; nothing is kept but the folder of the kubeconfig.")
        await stop.wait()
        click.echo("\nStopping.", err=True)
