"""Checks of probes and life-cycle hooks of a container."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allhands.api import names
from allhands.api.errors import forbidden, invalid, not_supported, required

if TYPE_CHECKING:
    from allhands.api.document import Manifest
    from allhands.api.errors import FieldError

_HEADER = "[-A-Za-z0-9]+"
_is_header = re.compile(_HEADER).fullmatch
_HEADER_TEXT = names.regex_text(
    "a valid HTTP header must consist of alphanumeric characters or '-'", _HEADER, "X-Header-Name"
)
_COUNTS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")


def check_probes(container: Manifest, path: str, grace_seconds: int | None, errors: list[FieldError]) -> None:
    """All probes and hooks of a container that stays up."""
    if "lifecycle" in container:
        for name in ("postStart", "preStop"):
            if name in container["lifecycle"]:
                hook = container["lifecycle"][name]
                _check_handler(hook, _HOOK_HANDLERS, grace_seconds, f"{path}.lifecycle.{name}", errors)
    if "livenessProbe" in container:
        _check_probe(container["livenessProbe"], f"{path}.livenessProbe", errors)
        _check_success_threshold(container["livenessProbe"], f"{path}.livenessProbe", errors)
    if "readinessProbe" in container:
        probe = container["readinessProbe"]
        _check_probe(probe, f"{path}.readinessProbe", errors)
        if "terminationGracePeriodSeconds" in probe:
            where = f"{path}.readinessProbe.terminationGracePeriodSeconds"
            errors.append(invalid(where, probe["terminationGracePeriodSeconds"], "must not be set for readinessProbes"))
    if "startupProbe" in container:
        _check_probe(container["startupProbe"], f"{path}.startupProbe", errors)
        _check_success_threshold(container["startupProbe"], f"{path}.startupProbe", errors)


def _check_success_threshold(probe: Manifest, path: str, errors: list[FieldError]) -> None:
    threshold = probe.get("successThreshold", 0)
    if threshold != 1:
        errors.append(invalid(f"{path}.successThreshold", threshold, "must be 1"))


def _check_probe(probe: Manifest, path: str, errors: list[FieldError]) -> None:
    _check_handler(probe, _PROBE_HANDLERS, None, path, errors)
    errors += [
        invalid(f"{path}.{name}", probe[name], "must be greater than or equal to 0")
        for name in _COUNTS
        if probe.get(name, 0) < 0
    ]
    grace_seconds = probe.get("terminationGracePeriodSeconds")
    if grace_seconds is not None and grace_seconds <= 0:
        errors.append(invalid(f"{path}.terminationGracePeriodSeconds", grace_seconds, "must be greater than 0"))


def _check_handler(
    handler: Manifest, kinds: tuple[str, ...], grace_seconds: int | None, path: str, errors: list[FieldError]
) -> None:
    used = [kind for kind in kinds if kind in handler]
    if not used:
        errors.append(required(path, "must specify a handler type"))
        return
    kind = used[0]
    action, where = handler[kind], f"{path}.{kind}"
    if kind == "exec":
        if not action.get("command"):
            errors.append(required(f"{where}.command"))
    elif kind == "httpGet":
        _check_http_get(action, where, errors)
    elif kind == "sleep":
        seconds = action.get("seconds", 0)
        if grace_seconds is not None and not 0 <= seconds <= grace_seconds:
            detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})"
            errors.append(invalid(where, seconds, detail))
    else:
        check_port(action.get("port", 0), f"{where}.port", errors)
    errors += [forbidden(f"{path}.{other}", "may not specify more than 1 handler type") for other in used[1:]]


def _check_http_get(action: Manifest, path: str, errors: list[FieldError]) -> None:
    if not action.get("path"):
        errors.append(required(f"{path}.path"))
    check_port(action.get("port", 0), f"{path}.port", errors)
    scheme = action.get("scheme", "")
    if scheme not in ("HTTP", "HTTPS"):
        errors.append(not_supported(f"{path}.scheme", scheme, ("HTTP", "HTTPS")))
    headers = [header.get("name", "") for header in action.get("httpHeaders", ())]
    errors += [invalid(f"{path}.httpHeaders", name, _HEADER_TEXT) for name in headers if not _is_header(name)]


def check_port(port: int | str, path: str, errors: list[FieldError]) -> None:
    """A number, or the name of a port."""
    texts = names.port_number(port) if isinstance(port, int) else names.port_name(port)
    errors += [invalid(path, port, text) for text in texts]
