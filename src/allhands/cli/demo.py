"""`allhands demo`: a whole cluster at work in half a minute, told scene by scene, and a table of what happened and why.

It fails if anything that it promises does not happen. Whatever ends it, nothing is left behind.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from allhands.cli.demo_screen import Screen
    from allhands.cli.demo_stage import Stage
    from allhands.compose.embedded import EmbeddedCluster
    from allhands.compose.system import SystemOptions

SIGNAL_EXIT = 128
"""What a shell expects of a command that a signal ended: this and the signal's number."""


@click.command("demo", short_help="Watch a whole batch cluster at work, for half a minute.")
def command() -> None:
    """Start a cluster in this process, run a dozen jobs on it, show what happens and why, and end.

    Three racks of simulated nodes, this machine as one more node, two teams' queues. It takes about 20 seconds, needs
    no terminal, installs nothing and leaves nothing behind. Exits with 1 if something that it promises did not happen.
    """
    ended_by: list[signal.Signals] = []
    try:
        missing = asyncio.run(_guarded(ended_by))
    except asyncio.CancelledError:
        click.echo("Ended early; the cluster is gone and left nothing behind.", err=True)
        raise SystemExit(SIGNAL_EXIT + ended_by[0] if ended_by else 1) from None
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise click.ClickException(f"{error.filename or 'the demo'}: {error.strerror or error}") from None
    conclude(missing)


def conclude(missing: str) -> None:
    """Fails if anything is missing: tests and people rely on what a demo shows."""
    if missing:
        raise click.ClickException(f"the demo did not do what it promises: {missing}.")


async def _guarded(ended_by: list[signal.Signals]) -> str:
    """Signals cancel the story, so that everything that was begun is ended in its order."""
    story = asyncio.current_task()
    assert story is not None

    def end(by: signal.Signals) -> None:
        if not ended_by:  # whoever is impatient must not stop the tidying up
            story.cancel()
        ended_by.append(by)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    return await _demo()


async def _demo() -> str:
    """What was promised and did not happen; nothing if all did."""
    from allhands.cli.demo_screen import Screen  # noqa: PLC0415 (`--help` must not pay for a cluster)

    with Screen() as screen:
        _introduce(screen)
        missing = await _on_a_cluster(screen)
        if not missing:
            from allhands.cli.demo_summary import how_to_call, next_steps  # noqa: PLC0415

            screen.heading("The cluster is gone and left nothing behind. Try next:")
            screen.lines(next_steps(how_to_call()))
    return missing


async def _on_a_cluster(screen: Screen) -> str:
    from allhands.cli.demo_cast import node_names  # noqa: PLC0415
    from allhands.cli.demo_stage import Stage  # noqa: PLC0415
    from allhands.compose.embedded import embedded  # noqa: PLC0415
    from allhands.kube import kubeconfig  # noqa: PLC0415
    from allhands.kube.objects import KubeObjects  # noqa: PLC0415

    with tempfile.TemporaryDirectory(prefix="allhands-") as name:
        folder = Path(name)
        async with embedded(folder, system=_system(folder)) as cluster:
            await _add_racks(cluster)
            access = kubeconfig.load(cluster.kubeconfig)
            async with KubeObjects(access) as client:
                return await played(Stage(client, access, screen, node_names()))


def _system(folder: Path) -> SystemOptions:
    from allhands.agents.local_node import LocalNode  # noqa: PLC0415
    from allhands.cli.demo_cast import MACHINE  # noqa: PLC0415
    from allhands.compose.system import SystemOptions  # noqa: PLC0415

    # What the machine has is of no matter: four small processes run anywhere.
    node = LocalNode(name=MACHINE, capacity={"cpu": "4", "memory": "4Gi"})
    return SystemOptions(process_node=node, process_folder=folder / "pods", volume_folder=str(folder / "volumes"))


async def _add_racks(cluster: EmbeddedCluster) -> None:
    from allhands.agents.agent import AGENT_LABEL, SIMULATED  # noqa: PLC0415
    from allhands.cli.demo_cast import GPUS_PER_NODE, RACK_LABEL, node_names  # noqa: PLC0415
    from allhands.compose.nodes import NodeSize, add_node, node_manifest  # noqa: PLC0415

    size = NodeSize(cpu="16", memory="64Gi", gpus=GPUS_PER_NODE)
    for name, rack in node_names().items():
        labels = {RACK_LABEL: rack, AGENT_LABEL: SIMULATED}
        await add_node(cluster.objects, node_manifest(name, size, cluster.store.now(), labels))


def _introduce(screen: Screen) -> None:
    screen.heading("allhands: a batch system for Kubernetes, here with a whole cluster in one process")
    screen.words(
        "Three racks of two nodes with four GPUs each, which only pretend to run what is placed on them, and this "
        "machine as one more node, on which jobs really run. Two teams, vision and speech, each with a queue: half of "
        "the GPUs is theirs by right, and they may use more while the other team does not need it."
    )


async def played(stage: Stage) -> str:
    """Tells the story, and sums it up however far it came."""
    from allhands.api.errors import StatusError  # noqa: PLC0415
    from allhands.cli.demo_stage import PromiseBrokenError  # noqa: PLC0415
    from allhands.cli.demo_story import tell  # noqa: PLC0415
    from allhands.cli.demo_summary import table  # noqa: PLC0415

    missing, screen = "", stage.screen
    try:
        async with stage:
            await tell(stage)
    except PromiseBrokenError as broken:
        missing = str(broken)
    except StatusError as refusal:
        missing = f"the server does as it is asked; it said: {refusal.message}"
    ended_at = stage.at()
    screen.wipe()
    screen.heading(f"What happened in these {ended_at:.0f} seconds, and why")
    screen.lines(table(stage.history, ended_at, screen.width))
    return missing
