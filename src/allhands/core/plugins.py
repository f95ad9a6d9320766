"""Every plugin there is: the lists of all rooms in one, each with its place, its arguments and one line about it.

To add a plugin: its file, its line in its room's list, its test, its row in docs/plugins.md. What it is comes from the
class itself: the arguments are the parameters of its constructor, the line is the first paragraph of its docstring, or
of its file's. Nothing here knows what any plugin does.
"""

from __future__ import annotations

import collections.abc
import enum
import inspect
import typing
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from allhands.api.configuration import ConfigurationError, listed, read, shown
from allhands.api.errors import Fault, FieldError
from allhands.core.filters import FILTERS
from allhands.core.gates import GATES, LIMITS
from allhands.core.guards import GUARDS
from allhands.core.orders import ORDERS
from allhands.core.scores import NEIGHBOUR_SCORES, SCORES, STATIC_SCORES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Point(enum.StrEnum):
    """The extension points, by the name of their Protocol."""

    SCORE = "Score"
    STATIC_SCORE = "StaticScore"
    NEIGHBOUR_SCORE = "NeighbourScore"
    FILTER = "StaticFilter"
    ORDER = "GroupOrder"
    GATE = "StartGate"
    LIMIT = "StartLimit"
    GUARD = "VictimGuard"


ROOMS: Final[Mapping[Point, Mapping[str, type]]] = {
    Point.SCORE: SCORES,
    Point.STATIC_SCORE: STATIC_SCORES,
    Point.NEIGHBOUR_SCORE: NEIGHBOUR_SCORES,
    Point.FILTER: FILTERS,
    Point.ORDER: ORDERS,
    Point.GATE: GATES,
    Point.LIMIT: LIMITS,
    Point.GUARD: GUARDS,
}
"""Where the plugins of each extension point are listed."""


class Argument(NamedTuple):
    """As it is written in a configuration."""

    name: str
    type: str
    default: str


class Plugin:
    """What is known of one plugin without asking it anything."""

    def __init__(self, name: str, point: Point, make: type) -> None:
        self.name = name
        self.point = point
        self.make = make
        self._shape = _arguments_struct(name, make)

    def __repr__(self) -> str:
        return f"Plugin({self.name}, {self.point.value})"

    @property
    def description(self) -> str:
        """One line."""
        module = inspect.getmodule(self.make)
        text = inspect.getdoc(self.make) if self.make.__doc__ else inspect.getdoc(module)
        return (text or "").partition("\n\n")[0].replace("\n", " ")

    @property
    def arguments(self) -> tuple[Argument, ...]:
        fields = msgspec.structs.fields(self._shape)
        return tuple(Argument(field.encode_name, _type_text(field.type), _default_text(field)) for field in fields)

    def build(self, arguments: Mapping[str, Any] | None = None, path: str = "arguments") -> Any:
        """An instance, or a ConfigurationError that names what is wrong with the arguments."""
        given = read(dict(arguments or {}), self._shape, path)
        try:
            return self.make(**{name: getattr(given, name) for name in self._shape.__struct_fields__})
        except ValueError as error:
            raise ConfigurationError([FieldError(Fault.INVALID, path, detail=str(error))]) from None


class Plugins:
    """A set of plugins to choose from by name."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._by_name: dict[str, Plugin] = {}
        for plugin in plugins:
            if plugin.name in self._by_name:
                raise ValueError(f'two plugins are registered as "{plugin.name}"')
            self._by_name[plugin.name] = plugin

    def __iter__(self) -> typing.Iterator[Plugin]:
        return iter(self._by_name.values())

    def at(self, *points: Point) -> tuple[Plugin, ...]:
        return tuple(plugin for plugin in self if plugin.point in points)

    def find(self, name: str, points: tuple[Point, ...], path: str) -> Plugin:
        """The plugin of that name at one of these points, or a ConfigurationError that lists those there are."""
        found = self._by_name.get(name)
        if found is not None and found.point in points:
            return found
        known = listed(plugin.name for plugin in self.at(*points))
        why = f"there is no such plugin here; there are {known}"
        if found is not None and found.point is Point.NEIGHBOUR_SCORE:
            why = f"it is always asked; how much it counts is said by neighbourWeight; to choose from there are {known}"
        elif found is not None:
            why = f"it is a {found.point.value}; here there are {known}"
        raise ConfigurationError([FieldError(Fault.NOT_SUPPORTED, path, shown(name), why)])

    def with_more(self, plugins: Iterable[Plugin]) -> Plugins:
        """The same and some more: plugins from outside, learned ones among them."""
        return Plugins([*self, *plugins])


def _arguments_struct(name: str, make: type) -> type[msgspec.Struct]:
    """The parameters of the constructor as a type that arguments are read into."""
    parameters = [
        parameter
        for parameter in inspect.signature(make).parameters.values()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    # Abstract collections appear in annotations only, so a file need not import them to run.
    constructor = typing.cast("Any", make).__init__
    hints = typing.get_type_hints(constructor, localns=vars(collections.abc), include_extras=True) if parameters else {}
    fields: list[tuple[str, Any, Any]] = []
    for parameter in parameters:
        if parameter.default is parameter.empty:
            raise TypeError(f"plugin {name}: argument {parameter.name} has no default")
        factory = _constant(parameter.default)
        fields.append((parameter.name, hints[parameter.name], msgspec.field(default_factory=factory)))
    return msgspec.defstruct(
        f"{make.__name__}Arguments", fields, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True
    )


def _constant(value: object) -> collections.abc.Callable[[], object]:
    return lambda: value


def _type_text(kind: Any) -> str:
    """How a type is written in documentation."""
    if typing.get_origin(kind) is typing.Annotated:
        return _type_text(typing.get_args(kind)[0])
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is not None and issubclass(origin, collections.abc.Mapping):
        return f"map of {_type_text(inner[1])}"
    if origin is not None and issubclass(origin, collections.abc.Sequence):
        return f"list of {_type_text(inner[0])}"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        parts = (f"{field.encode_name}: {_type_text(field.type)}" for field in msgspec.structs.fields(kind))
        return "{" + ", ".join(parts) + "}"
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return " or ".join(str(member.value) for member in kind)
    return {int: "number", str: "text", bool: "true or false"}.get(kind, str(kind))


def _default_text(field: msgspec.structs.FieldInfo) -> str:
    value = field.default_factory()
    return msgspec.json.encode(value, order="sorted").decode()


PLUGINS: Final = Plugins(Plugin(name, point, make) for point, room in ROOMS.items() for name, make in room.items())
"""The list."""
