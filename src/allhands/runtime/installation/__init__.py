"""What stands in a real cluster that runs us: the objects, how they are brought there, and how they are taken away.

The objects are made by pure functions of `InstallOptions`; the Helm chart renders the same ones, and a test holds the
two against each other.
"""

from allhands.runtime.installation.objects import install_objects, kind_objects
from allhands.runtime.installation.options import InstallOptions, OptionError

__all__ = ["InstallOptions", "OptionError", "install_objects", "kind_objects"]
