"""Decode a YAML file into msgspec structs, and report all errors at once, with line and column.

A key is declared once, as a field of a struct. A scalar type with rules of its own is
`Annotated[TYPE, Value(parse, expected)]`. A struct that can also be written as a scalar has a class
method `from_scalar`. Checks of several keys are in a method `check`, which raises ValueError. A
field with an encoded name that begins with `_` is not a key.

>>> class Server(msgspec.Struct):
...     host: Annotated[str, Value(parse_text, "a host name")]
...     port: int = 80
>>> decode_yaml("host: db.example.com", Server, name="server.yaml")
Server(host='db.example.com', port=80)
"""

import inspect
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, NamedTuple, TypeGuard, TypeVar, Union, get_args, get_origin

import msgspec
import yaml  # type: ignore[import-untyped]  # it has no types

from schemas import units
from schemas.errors import ConfigError
from schemas.spelling import did_you_mean

_SCALARS: dict[object, str] = {bool: "true or false", int: "an integer", str: "a text in quotes"}
_T = TypeVar("_T", bound=msgspec.Struct)
_Content = TypeVar("_Content")


class Value(NamedTuple):
    """How a scalar is parsed, and the words for a correct value in messages.

    `parse` raises ValueError. If that has a text, it replaces the whole message, so that a value
    that must not be shown is not shown.
    """

    parse: Callable[[object], object]
    expected: str


def parse_text(value: object) -> str:
    """Return a text that is not blank and has no NUL."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError
    return value


def parse_duration(value: object) -> float:
    """Return the seconds of a duration with a unit, such as `200ms`, `90s` or `2h`."""
    try:
        return units.parse_duration(str(value))
    except ConfigError as exc:
        raise ValueError from exc


def parse_size(value: object) -> int:
    """Return the bytes of a size, such as `4096`, `64KiB` or `256MiB`."""
    try:
        return units.parse_size(str(value))
    except ConfigError as exc:
        raise ValueError from exc


def parse_natural(value: object) -> int:
    """Return an integer, 0 or more."""
    if type(value) is not int or value < 0:
        raise ValueError
    return value


def _not_zero(parse: Callable[[object], float]) -> Callable[[object], float]:
    def parse_positive(value: object) -> float:
        number = parse(value)
        if number == 0:
            raise ValueError
        return number

    return parse_positive


Text = Annotated[str, Value(parse_text, "a text in quotes")]
Natural = Annotated[int, Value(parse_natural, "a number, 0 or more")]
Positive = Annotated[int, Value(_not_zero(parse_natural), "a number, 1 or more")]
Size = Annotated[int, Value(_not_zero(parse_size), "a size such as 4096, 64KiB or 256MiB")]
_DURATION_EXAMPLES = "a duration such as 200ms, 90s or 2h"
Duration = Annotated[float, Value(parse_duration, _DURATION_EXAMPLES)]
PositiveDuration = Annotated[float, Value(_not_zero(parse_duration), _DURATION_EXAMPLES)]


def read_yaml(path: Path, type_: type[_T]) -> _T:
    """Return the content of a file; raise ConfigError with a line for each error."""
    return decode_yaml(_read_text(path), type_, name=str(path))


def _read_text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}; expected a file that can be read") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: not UTF-8; expected YAML") from exc


def read_yaml_list(path: Path, type_: type[_T]) -> tuple[_T, ...]:
    """Return the items of a file that is a list; raise ConfigError with a line for each error."""
    return _decode(_read_text(path), str(path), lambda decoder, node: decoder.structs(node, type_))


def decode_yaml(text: str, type_: type[_T], *, name: str) -> _T:
    """Return the content of a document called `name`; raise ConfigError with a line per error."""
    return _decode(text, name, lambda decoder, node: decoder.struct(node, type_, ""))


def _decode(
    text: str, name: str, decode: Callable[["_Decoder", yaml.Node | None], _Content | None]
) -> _Content:
    loader = yaml.SafeLoader(text)
    try:
        decoder = _Decoder(loader, name)
        result = decode(decoder, loader.get_single_node())
    except yaml.YAMLError as exc:
        raise ConfigError(f"{name}: {' '.join(str(exc).split())}; expected YAML") from exc
    finally:
        loader.dispose()
    if decoder.errors or result is None:
        raise ConfigError("\n".join(decoder.errors))
    return result


class _Decoder:
    """Convert YAML nodes, and collect the errors. A value with an error becomes None."""

    def __init__(self, loader: yaml.SafeLoader, name: str) -> None:
        self._loader = loader
        self._name = name
        self.errors: list[str] = []

    def structs(self, node: yaml.Node | None, type_: type[_T]) -> tuple[_T, ...] | None:
        if not isinstance(node, yaml.SequenceNode):
            self._fail(node, "", f"{_kind(node)}; expected a list")
            return None
        items = [self.struct(item, type_, f"[{at}]") for at, item in enumerate(node.value)]
        return tuple(item for item in items if item is not None)

    def struct(self, node: yaml.Node | None, type_: type[_T], key: str) -> _T | None:
        fields = {field.encode_name: field for field in _keys(type_)}
        if not isinstance(node, yaml.MappingNode):
            self._fail(node, key, f"{_kind(node)}; expected keys and values: {', '.join(fields)}")
            return None
        count = len(self.errors)
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            name = self._loader.construct_object(key_node, deep=True)
            if name not in fields:
                expected = f"expected one of {', '.join(fields)}{did_you_mean(name, fields)}"
                self._fail(key_node, key, f"{name!r}; {expected}")
            elif fields[name].name in values:
                self._fail(key_node, key, f"{name!r} twice; expected each key once")
            else:
                field = fields[name]
                values[field.name] = self.value(value_node, field.type, _join(key, name))
        for field in fields.values():
            if field.required and field.name not in values:
                self._fail(node, _join(key, field.encode_name), "missing; expected a value")
        if len(self.errors) > count:
            return None
        result = type_(**values)
        try:
            getattr(result, "check", lambda: None)()
        except ValueError as exc:
            self._fail(node, key, str(exc))
            return None
        return result

    def value(self, node: yaml.Node, type_: object, key: str) -> object:
        members = _members(type_)
        structs = [member for member in members if _is_struct(member)]
        if structs and isinstance(node, yaml.MappingNode):
            return self.struct(node, structs[0], key)
        items = [get_args(member)[0] for member in members if get_origin(member) is tuple]
        if items and isinstance(node, yaml.SequenceNode):
            numbered = enumerate(node.value)
            return tuple([self.value(item, items[0], f"{key}[{at}]") for at, item in numbered])
        value = self._loader.construct_object(node, deep=True)
        for member in members:
            try:
                return _convert(value, member)
            except ValueError as exc:
                if str(exc):
                    self._fail(node, key, str(exc))
                    return None
        expected = " or ".join(dict.fromkeys(chain.from_iterable(map(_describe, members))))
        self._fail(node, key, f"{value!r}; expected {expected}")
        return None

    def _fail(self, node: yaml.Node | None, key: str, message: str) -> None:
        line, column = (1, 1)
        if node is not None:
            line, column = node.start_mark.line + 1, node.start_mark.column + 1
        place = f"{self._name}:{line}:{column}"
        self.errors.append(f"{place}: {key}: {message}" if key else f"{place}: {message}")


def _kind(node: yaml.Node | None) -> str:
    return "an empty document" if node is None else f"a {node.id}"


def _keys(type_: type[msgspec.Struct]) -> Iterable[msgspec.structs.FieldInfo]:
    return (
        field for field in msgspec.structs.fields(type_) if not field.encode_name.startswith("_")
    )


def _members(type_: object) -> list[object]:
    """The types of a union but None; a single type is a union of one."""
    if get_origin(type_) not in (Union, UnionType):
        return [type_]
    return [member for member in get_args(type_) if member is not NoneType]


def _convert(value: object, member: object) -> object:
    """Return a value as one member of a union; raise ValueError if it is none."""
    if get_origin(member) is Annotated:
        return get_args(member)[1].parse(value)
    if get_origin(member) is tuple:
        raise ValueError
    if _is_struct(member):
        from_scalar = getattr(member, "from_scalar", None)
        if from_scalar is None:
            raise ValueError
        return from_scalar(value)
    try:
        return msgspec.convert(value, member)
    except msgspec.ValidationError:
        raise ValueError from None


def _describe(member: object) -> Iterable[str]:
    if get_origin(member) is Annotated:
        yield get_args(member)[1].expected
    elif get_origin(member) is tuple:
        yield "a list"
    elif _is_struct(member):
        names = ", ".join(field.encode_name for field in _keys(member))
        yield f"keys and values: {names}"
    else:
        yield _SCALARS.get(member) or " or ".join(map(str, get_args(member)))


def _is_struct(member: object) -> TypeGuard[type[msgspec.Struct]]:
    return inspect.isclass(member) and issubclass(member, msgspec.Struct)


def _join(key: str, name: str) -> str:
    return f"{key}: {name}" if key else name
