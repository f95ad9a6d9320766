"""`allhands webhooks`: checks and completes objects of our kinds before a real cluster stores them, until stopped."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from allhands.cli.process import AddressType, process_options, run_process

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from allhands.cli.process import Started
    from allhands.compose.process import ProcessOptions
    from allhands.kube.access import Access


def _checked_url(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """API servers take nothing else."""
    parts = urlsplit(value)
    if value and (parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username):
        raise click.BadParameter(f"{value!r} is no https://HOST:PORT, which is all that API servers call")
    return value


@click.command("webhooks", short_help="Check jobs and queues before a real cluster stores them.")
@click.option(
    "--address",
    type=AddressType(),
    default="127.0.0.1:8443",
    show_default=True,
    help="Where to listen, with TLS; port 0 takes a free one, which is logged.",
)
@click.option(
    "--url",
    default="",
    metavar="URL",
    callback=_checked_url,
    help="Where API servers reach this process, such as https://10.0.0.1:8443: it then makes the configurations that "
    "lead there. [default: by the service that `allhands install` brings]",
)
@click.option(
    "--client-ca-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Only who shows a certificate of this authority may ask. [default: anybody, as API servers show none]",
)
@functools.partial(process_options, without=("leader_elect",))
def command(started: Started, address: tuple[str, int], url: str, client_ca_file: Path | None) -> None:
    """Check jobs, cron jobs, flows, pod groups, queues and hypernodes before a real cluster stores them, and fill in
    what was left out; whoever submits a job must be allowed to create its pods. Certificates are made, kept in a
    Secret, and renewed in time. Any number may run at once. It runs until Ctrl-C or SIGTERM. (docs/webhooks.md)

    \b
    Examples:
      allhands webhooks --kubeconfig ~/.kube/config --address 0.0.0.0:8443 --url https://10.0.0.1:8443
    """
    from allhands.compose.webhooks import WebhookOptions, run_webhooks  # noqa: PLC0415 (`--help` must not pay for it)

    host, port = address

    def run(access: Access, process: ProcessOptions) -> Coroutine[Any, Any, None]:
        clients = "" if client_ca_file is None else client_ca_file.read_text(encoding="utf-8")
        return run_webhooks(access, process, WebhookOptions(host=host, port=port, url=url, clients=clients))

    run_process(started, run)
