"""`allhands backup`: copies an embedded cluster into one file, while it runs."""

from __future__ import annotations

from pathlib import Path

import click

from allhands.cli.up import default_folder

MOST_NAMED = 20


@click.command("backup", short_help="Copy an embedded cluster into one file, while it runs.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=default_folder,
    metavar="DIR",
    help="Folder of the cluster. [default: ~/.allhands]",
)
@click.option("--rescue", is_flag=True, help="Of a damaged cluster, save what can still be read.")
@click.option(
    "--from",
    "damaged",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --rescue: a damaged backup to read, instead of the cluster.",
)
def command(file: Path, data: Path, rescue: bool, damaged: Path | None) -> None:
    """Copy all objects of an embedded cluster into FILE, as they are at one moment. The cluster may be running.

    FILE must not exist; it is there whole or not at all, and every object in it has been checked. It holds secrets as
    the cluster does: keep it as safe. Certificates, tokens, and files of pods and volumes are not in it.

    \b
    Examples:
      allhands backup monday.db
      allhands backup --data ./cluster monday.db
      allhands backup --rescue readable.db     when `allhands up` says that the data are damaged
      allhands backup --rescue --from monday.db readable.db     when `allhands restore` says so of a backup
    """
    from allhands.compose.embedded_data import back_up, is_ephemeral, save  # noqa: PLC0415 (`--help` must not pay)
    from allhands.store.datafile import DataFileError  # noqa: PLC0415

    if damaged is not None and not rescue:
        raise click.UsageError("--from is for damaged backups: it needs --rescue. A good one can simply be copied")
    folder, target = data.absolute(), file.absolute()
    if damaged is None and is_ephemeral(folder):
        click.echo(
            f"The cluster in {data} is running with --ephemeral: nothing of it is in {file}, only what was kept there "
            "before.",
            err=True,
        )
    try:
        copied = save(folder, target, damaged and damaged.absolute()) if rescue else back_up(folder, target)
    except DataFileError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"cannot write {file}: {error.strerror or error}") from None
    click.echo(f"{copied.objects} objects (version {copied.version}) are in {file}.")
    if copied.lost:
        click.echo(f"{len(copied.lost)} could not be read:", err=True)
        for name in copied.lost[:MOST_NAMED]:
            click.echo(f"  {name}", err=True)
        if len(copied.lost) > MOST_NAMED:
            click.echo(f"  and {len(copied.lost) - MOST_NAMED} more", err=True)
