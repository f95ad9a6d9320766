"""What stands in a real cluster that runs us: the objects, how they are brought there, and how they are taken away.

The objects are made by pure functions of `InstallOptions`; the Helm chart renders the same ones, and a test holds the
two against each other. Who only asks for rights does not load them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allhands.runtime.installation.objects import install_objects, kind_objects, people_objects
    from allhands.runtime.installation.options import InstallOptions, OptionError

__all__ = ["InstallOptions", "OptionError", "install_objects", "kind_objects", "people_objects"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "options" if name.endswith(("Options", "Error")) else "objects"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
