"""`allhands replay FILE`: a recorded cycle through the core once more, and whether the plan is still the same."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allhands.cli.policy_file import policy_of_file

if TYPE_CHECKING:
    from allhands.core.plan import Plan
    from allhands.core.plan_difference import Difference
    from allhands.core.policy import Policy
    from allhands.core.recording import Recording

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("replay", short_help="Run a dumped snapshot through the scheduling core and show the plan.")
@click.argument("file", type=_FILE)
@click.option(
    "-o", "--output", type=click.Choice(["table", "wide", "json"]), default="table", help="How to print the plan."
)
@click.option("--policy", "policy_file", type=_FILE, help="Decide by this policy instead of the recorded one.")
def command(file: Path, output: str, policy_file: Path | None) -> None:
    """Decide a recorded cycle again: the same cluster, policy and moment, so the same plan, on any machine.

    Exits with 1 if the plan differs from the one that was recorded. With --policy the difference is what was asked
    for, and it exits with 0. `wide` cuts nothing. A recording to try it on: examples/dumps/busy-cluster.dump.gz.

    \b
    Examples:
      allhands replay cycle.dump.gz
      allhands replay cycle.dump.gz -o json
      allhands replay cycle.dump.gz --policy spread.yaml
    """
    from allhands.core.plan_difference import differences  # noqa: PLC0415 (`--help` must not load numpy)

    recording = _read(file)
    plan = decide(recording, None if policy_file is None else policy_of_file(policy_file))
    found = None if recording.plan is None else differences(recording.plan, plan)
    if output == "json":
        _print_json(plan, found)
    else:
        _print_tables(recording, plan, found, wide=output == "wide")
    if found and policy_file is None:
        raise SystemExit(1)


def _read(file: Path) -> Recording:
    from allhands.core.recording import MAX_PACKED_BYTES, RecordingError, decode  # noqa: PLC0415

    try:
        with file.open("rb") as opened:
            return decode(opened.read(MAX_PACKED_BYTES + 1))
    except (OSError, RecordingError) as error:
        raise click.ClickException(f"cannot replay {file}: {_why(error)}") from None
    except MemoryError:
        raise click.ClickException(f"cannot replay {file}: it needs more memory than there is") from None


def _why(error: OSError | ValueError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def decide(recording: Recording, policy: Policy | None) -> Plan:
    from allhands.core.recording import RecordingError  # noqa: PLC0415

    try:
        return recording.replay(policy)
    except RecordingError as error:
        raise click.ClickException(str(error)) from None
    except Exception as error:
        # A recording may be a bug report about just this, or made up by hand.
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        raise click.ClickException(
            f"the core failed on this recording: {type(error).__name__}: {error} ({place})"
        ) from error


def _print_tables(recording: Recording, plan: Plan, found: tuple[Difference, ...] | None, *, wide: bool) -> None:
    from allhands.cli.plan_text import MAX_DIFFERENCES, apart, counted, grid, tables  # noqa: PLC0415
    from allhands.cli.table_text import MAX_WIDTH  # noqa: PLC0415
    from allhands.model.time_text import utc_text  # noqa: PLC0415

    width = None if wide else MAX_WIDTH
    snapshot = recording.snapshot
    nodes, pods = (
        counted(len(snapshot.columns), "node", "nodes"),
        counted(len(snapshot.pods), "bound pod", "bound pods"),
    )
    groups = counted(len(snapshot.groups), "group", "groups")
    click.echo(f"{nodes}, {pods}, {groups} at {utc_text(recording.now)}\n")
    for table in tables(plan, recording.now, width=width):
        if table:
            click.echo(table)
    starts, binds = counted(len(plan.starts), "start", "starts"), counted(len(plan.binds), "pod", "pods")
    evictions = counted(len(plan.evictions), "eviction", "evictions")
    click.echo(f"{starts} with {binds}, {evictions}, {counted(len(plan.waits), 'group waits', 'groups wait')}.")
    if found is None:
        click.echo("No plan was recorded to compare it with.")
    elif not found:
        click.echo("The plan is the same as the recorded one.")
    else:
        shown = found if wide else found[:MAX_DIFFERENCES]
        rows = shown if wide else [apart(difference) for difference in shown]
        places = counted(len(found), "place", "places")
        title = f"The plan differs from the recorded one in {places}" + _first(len(shown), len(found))
        click.echo("\n" + grid(title, ("WHAT", "RECORDED", "NOW"), rows, width=width), nl=False)


def _first(shown: int, total: int) -> str:
    return "" if shown == total else f", of which the first {shown}"


def _print_json(plan: Plan, found: tuple[Difference, ...] | None) -> None:
    import json  # noqa: PLC0415

    from allhands.cli.plan_text import document  # noqa: PLC0415

    comparison = {
        "recorded": found is not None,
        "same": None if found is None else not found,
        "differences": [difference._asdict() for difference in found or ()],
    }
    click.echo(json.dumps({**document(plan), "comparison": comparison}, indent=1))
