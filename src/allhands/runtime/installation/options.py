"""How an installation may differ from another: where it lives, which image runs, whom it schedules for.

Everything wrong is said at once, with the option's name and what is allowed. It reads no file and asks no cluster.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from allhands import __version__
from allhands.api import names

NAMESPACE: Final = "allhands-system"
SCHEDULER_NAME: Final = "allhands"
MOST_REPLICAS: Final = 9
_IMAGE: Final = re.compile(
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]{1,5})?"  # a repository, or the host that it is on
    r"(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)


class OptionError(ValueError):
    """What cannot be installed like this; one line for each thing that is wrong."""


class InstallOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults are those of the Helm chart's values."""

    namespace: str = NAMESPACE
    image: str = f"allhands:{__version__}"
    pull_secrets: tuple[str, ...] = ()
    """Names of secrets in the namespace that the image is pulled with."""
    scheduler_names: tuple[str, ...] = (SCHEDULER_NAME,)
    replicas: int = 2
    policy: str = ""
    """The text of a policy file; without one the built-in policy decides."""
    metrics_secret: str = ""
    """The name of a secret in the namespace; who shows the token under its key `token` may read the metrics."""
    webhooks: bool = False
    """Whether objects of our kinds are checked and completed before the API server stores them."""
    api_ports: tuple[int, ...] = (443, 6443)
    """Where the API server may be reached; the network policy closes all other ways out."""

    def check(self) -> InstallOptions:
        """Itself, if nothing is wrong with it."""
        problems = [*self._name_problems(), *self._number_problems()]
        if not _IMAGE.fullmatch(self.image):
            problems.append(f"image: {self.image!r} is no image: NAME[:TAG][@sha256:DIGEST], NAME in lower case")
        if problems:
            raise OptionError("\n".join(problems))
        return self

    def _name_problems(self) -> list[str]:
        problems = [f"namespace: {self.namespace!r}: {it}" for it in names.dns1123_label(self.namespace)]
        if self.namespace.startswith("kube-"):
            problems.append(f"namespace: {self.namespace!r}: namespaces that begin with kube- are the cluster's own")
        if not self.scheduler_names:
            problems.append("scheduler-name: at least one is needed")
        if len(set(self.scheduler_names)) != len(self.scheduler_names):
            problems.append("scheduler-name: each can be given once")
        for name in self.scheduler_names:
            problems += [f"scheduler-name: {name!r}: {it}" for it in names.dns1123_subdomain(name)]
        for option, names_given in (
            ("image-pull-secret", self.pull_secrets),
            ("metrics-secret", (self.metrics_secret,)),
        ):
            for name in filter(None, names_given):
                problems += [f"{option}: {name!r}: {it}" for it in names.dns1123_subdomain(name)]
        return problems

    def _number_problems(self) -> list[str]:
        problems = []
        if not 1 <= self.replicas <= MOST_REPLICAS:
            problems.append(f"replicas: {self.replicas} is not between 1 and {MOST_REPLICAS}; one leads, others wait")
        if not self.api_ports:
            problems.append("api-port: at least one is needed")
        problems += [f"api-port: {it} is not between 1 and 65535" for it in self.api_ports if not 1 <= it <= 65535]
        return problems
