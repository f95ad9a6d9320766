"""`allhands restore`: makes an embedded cluster what a backup holds."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from allhands.cli.up import default_folder


@click.command("restore", short_help="Make an embedded cluster what a backup holds.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_folder,
    metavar="DIR",
    help="Folder of the cluster. [default: ~/.allhands]",
)
def command(file: Path, data: Path) -> None:
    """Make the embedded cluster in a folder what FILE, a backup, holds. The cluster must not be running.

    The backup is checked first, whole. What was in the folder is kept beside it under another name. Clients that
    watched the cluster before are told to list anew.

    \b
    Examples:
      allhands restore monday.db
      allhands restore --data ./copy monday.db     a second cluster with the same objects
    """
    from allhands.compose.embedded_data import bring_back  # noqa: PLC0415 (`--help` must not pay for a store)
    from allhands.compose.machine import SystemClock  # noqa: PLC0415
    from allhands.store.datafile import DataFileError  # noqa: PLC0415

    try:
        copied, aside = bring_back(data.absolute(), file.absolute(), SystemClock())
    except DataFileError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        where = f"cannot use {error.filename}" if error.filename else "cannot restore"
        raise click.ClickException(f"{where}: {error.strerror or error}") from None
    click.echo(f"{copied.objects} objects are in {data}.")
    if aside is not None:
        click.echo(f"What was there before is kept as {aside}.")
    click.echo(f"Start it with: allhands up --data {shlex.quote(str(data))}")
