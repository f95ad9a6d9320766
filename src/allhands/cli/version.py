"""`allhands version`."""

from __future__ import annotations

import platform

import click

from allhands import __version__


@click.command("version", short_help="Print the version.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="How to print it.")
def command(output: str) -> None:
    """Print the version of allhands and of the Kubernetes API that its embedded cluster speaks."""
    from allhands.api.schema.definitions import SCHEMA_VERSION  # noqa: PLC0415 (`--help` need not load msgspec)

    facts = {
        "allhands": __version__,
        "kubernetes": SCHEMA_VERSION.rpartition(".")[0],
        "python": platform.python_version(),
    }
    if output == "json":
        import json  # noqa: PLC0415

        click.echo(json.dumps(facts))
    else:
        click.echo(f"allhands {facts['allhands']} (Kubernetes API {facts['kubernetes']}, Python {facts['python']})")
