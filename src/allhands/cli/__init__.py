"""The command line. One file per command; each is imported only when it is called, so that `--help` costs nothing.

Tables and results go to stdout, everything else to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage, 130
ended by Ctrl-C.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

INTERRUPTED = 130
"""What a shell expects of a command that Ctrl-C ended."""
COMMANDS = {
    "abort": "Take Volcano Jobs off the nodes, or end them for good.",
    "backup": "Copy an embedded cluster into one file, while it runs.",
    "bench": "Measure how fast this machine decides.",
    "completion": "Print the completion script of a shell.",
    "controllers": "Run the controllers that a real cluster lacks.",
    "demo": "Watch a whole batch cluster at work, for half a minute.",
    "explain": "Tell the whole story of a job, a pod, a group, a flow or a queue.",
    "flows": "List flows: how far each is, which steps run, and why it does not go on.",
    "fuzz": "Run random histories with faults and check that no law breaks.",
    "install": "Bring allhands into a cluster, or print what that would be.",
    "jobs": "List jobs: how far each is, and why it is not further.",
    "logs": "Print what the pods of a job write.",
    "queue": "Open and close queues.",
    "queues": "List queues: what each may have, what it uses, who runs and who waits.",
    "replay": "Run a dumped snapshot through the scheduling core and show the plan.",
    "restart": "End the pods of Volcano Jobs and begin anew.",
    "restore": "Make an embedded cluster what a backup holds.",
    "resume": "Let suspended jobs go on.",
    "scheduler": "Place the pods and gangs of a real cluster.",
    "simulate": "Replay a trace in virtual time and show how long jobs took.",
    "submit": "Create or update what files describe, in a queue and as a gang if wanted.",
    "suspend": "Take jobs off the nodes until somebody resumes them.",
    "top": "Show how full nodes and queues are, and the busiest jobs.",
    "topology": "Show racks, zones and nodes: what is free, what is ill, and which jobs sit where.",
    "uninstall": "Take allhands out of a cluster again.",
    "up": "Start an embedded cluster that your own kubectl can talk to.",
    "user": "Let more people use an embedded cluster: add, list, remove, new tokens.",
    "version": "Print the version.",
    "wait": "Wait until a job runs, succeeds, fails or is gone.",
    "webhooks": "Check jobs and queues before a real cluster stores them.",
}
"""Every command and what it is for. Adding one is a file of that name and a line here."""

EXAMPLES = """\b
Examples:
  allhands up                          an embedded cluster of three nodes, on loopback
  allhands up --local                  this machine as its node: commands really run
  allhands up --nodes 100 --node-gpus 8
  allhands demo                        see what it does, in half a minute
  allhands submit -f job.yaml --queue team-a --min-available all
  allhands explain job/train           why it waits, until when, and what happened
  kubectl allhands version             the same commands as a kubectl plugin
"""


class _LazyCommands(click.Group):
    """Knows the commands by name and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"allhands.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


@click.group(cls=_LazyCommands, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"]})
def root() -> None:
    """allhands: a batch system for Kubernetes. It queues, places, runs and explains jobs: all hands or none."""


def program_name() -> str:
    """How the user called us, for usage texts: plugins are called by kubectl under another name."""
    return "kubectl allhands" if Path(sys.argv[0]).name.startswith("kubectl-") else "allhands"


def main(arguments: Sequence[str] | None = None) -> None:
    # numpy would start a thread for each core, which spins, for linear algebra that nobody here does.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(50_000)  # loading makes very much, and nothing of it is garbage
    root.main(args=None if arguments is None else list(arguments), prog_name=program_name())


def complete() -> None:
    """What kubectl calls to complete `kubectl allhands …`: the words so far as arguments, candidates on stdout."""
    from click.shell_completion import ShellComplete  # noqa: PLC0415 (only completion pays for it)

    words = sys.argv[1:]
    completer = ShellComplete(root, {}, "allhands", "_ALLHANDS_COMPLETE")
    for item in completer.get_completions(words[:-1], words[-1] if words else ""):
        click.echo(item.value)
    click.echo(":4")  # kubectl's directive: no file names besides
