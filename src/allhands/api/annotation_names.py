"""Names of annotations that several rooms write or read, each in one place.

Words only: what they mean and how their texts are read is in `dialects.annotations`.
"""

from typing import Final

EXPECTED_DURATION: Final = "allhands.dev/expected-duration"
"""How long a group will run, as its owner expects."""
GROUP_SIZE: Final = "allhands.dev/group-size"
"""On the PodGroup of a Job that limits how much of it is disturbed: how many pods there are to be."""
