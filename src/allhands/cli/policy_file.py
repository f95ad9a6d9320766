"""A scheduling policy from a file that a user named: ours or Volcano's, with everything wrong in it said at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path

    from allhands.core.policy import Policy


def policy_of_file(file: Path) -> Policy:
    from allhands.api.configuration import ConfigurationError  # noqa: PLC0415 (`--help` must not load numpy)
    from allhands.core.configuration.building import build_policy  # noqa: PLC0415
    from allhands.dialects.policy_text import MAX_BYTES, policy_of_text  # noqa: PLC0415

    try:
        with file.open(encoding="utf-8") as opened:
            translated = policy_of_text(opened.read(MAX_BYTES + 1))
        for warning in translated.warnings:
            click.echo(f"{file}: {warning}", err=True)
        return build_policy(translated.policy)
    except OSError as error:
        raise click.ClickException(f"cannot use the policy {file}: {error.strerror or error}") from None
    except (UnicodeDecodeError, ConfigurationError) as error:
        raise click.ClickException(f"cannot use the policy {file}: {error}") from None
