"""The text of a policy file, ours or Volcano's, as a SchedulingPolicy: the one door for files that people write.

A key that is written twice is an error, since one of the two would be lost. It opens no file: it is given the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import yaml

from allhands.api.configuration import ConfigurationError, read
from allhands.api.errors import Fault, FieldError
from allhands.api.policy import SchedulingPolicy
from allhands.dialects.volcano_scheduler import Translated, translate

if TYPE_CHECKING:
    from collections.abc import Hashable

MAX_BYTES: Final = 1 << 20
"""As much as a ConfigMap holds."""
VOLCANO_FIELDS: Final = frozenset({"actions", "tiers"})


class _Loader(yaml.SafeLoader):
    """Refuses keys that are written twice, and keeps to what JSON can say: dates stay text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is not None and name in seen and name != "<<":
                raise yaml.constructor.ConstructorError(None, None, f'"{name}" is written twice', key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def policy_of_text(text: str) -> Translated:
    """The policy of a file and what is to be said about it, or a ConfigurationError."""
    document = decode(text)
    if isinstance(document, dict) and "apiVersion" not in document and VOLCANO_FIELDS & set(document):
        return translate(document)
    return Translated(read(document, SchedulingPolicy))


def decode(text: str) -> object:
    """The value of the one YAML document in the text, or a ConfigurationError with the line."""
    if len(text) > MAX_BYTES:
        raise _error(f"it has {len(text)} characters; at most {MAX_BYTES} are read")
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise _error(f"{line}{error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise _error(" ".join(str(error).split())) from None
    except RecursionError:
        raise _error("it is nested too deeply") from None
    if len(documents) > 1:
        raise _error(f"it holds {len(documents)} documents; one is expected")
    return documents[0] if documents else None


def _error(detail: str) -> ConfigurationError:
    return ConfigurationError([FieldError(Fault.INVALID, "document", detail=detail)])
