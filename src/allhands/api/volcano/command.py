"""The kind Command (bus.volcano.sh/v1alpha1): something that is to be done once to a Job or a queue.

Types and documentation only. It has no spec: its fields stand beside its metadata. Who carries it out deletes it.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from allhands.api.definitions import AGE, OURS, Column, Definition, Version
from allhands.api.volcano.lifecycle_policy import ACTIONS_OF_COMMANDS, Action, choices


class Target(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The object that it is done to, as owner references name objects."""

    api_version: Annotated[str, Meta(description="The group and version of its kind.")]
    kind: Annotated[str, Meta(description="Its kind: Job or Queue.")]
    name: Annotated[str, Meta(description="Its name.")]
    uid: Annotated[str, Meta(description="Its uid: a later object of the same name is not meant.")]
    controller: Annotated[bool | None, Meta(description="Unused here.")] = None
    block_owner_deletion: Annotated[bool | None, Meta(description="Unused here.")] = None


class Command(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that is to be done once: to suspend, resume or restart a Job, to open or close a queue.

    It is deleted when it is carried out.
    """

    action: Annotated[
        Action | None, Meta(description="What is to be done.", extra_json_schema=choices(ACTIONS_OF_COMMANDS))
    ] = None
    target: Annotated[
        Target | None,
        Meta(description="What it is done to.", extra_json_schema={"x-kubernetes-map-type": "atomic"}),
    ] = None
    reason: Annotated[str, Meta(description="Why, as one word for programs.")] = ""
    message: Annotated[str, Meta(description="Why, as a sentence for people.")] = ""


COMMAND: Final = Definition(
    group="bus.volcano.sh",
    kind="Command",
    plural="commands",
    categories=(OURS,),
    versions=(
        Version(
            name="v1alpha1",
            type=Command,
            status=False,
            columns=(
                Column("Action", ".action", description="What is to be done."),
                Column("Kind", ".target.kind", description="The kind of what it is done to."),
                Column("Target", ".target.name", description="What it is done to."),
                AGE,
            ),
        ),
    ),
)
