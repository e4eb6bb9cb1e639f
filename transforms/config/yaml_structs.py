"""Decode a YAML file into msgspec structs, and report all errors at once, with line and column.

A key is declared once, as a field of a struct. A scalar type with rules of its own is
`Annotated[TYPE, Value(parse, expected)]`. A struct that can also be written as a scalar has a class
method `from_scalar`. Checks of several keys are in a method `check`, which raises ValueError. A
field with an encoded name that begins with `_` is not a key. In a union of tagged structs, the key
of the tag decides which one is meant.

Scalars are those of YAML 1.2: `22:00`, `yes` and `2024-01-31` are texts. No message shows a secret.

>>> class Server(msgspec.Struct):
...     host: Annotated[str, Value(parse_text, "a host name")]
...     port: int = 80
>>> decode_yaml("host: db.example.com", Server, name="server.yaml")
Server(host='db.example.com', port=80)
"""

import inspect
import json
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    ClassVar,
    Generic,
    NamedTuple,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import msgspec
import yaml  # type: ignore[import-untyped]  # it has no types

from feedferry.schemas import units
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.spelling import closest, did_you_mean
from feedferry.transforms.config import scalars
from feedferry.transforms.config.secrets import check_no_secret

Text = scalars.Text
Value = scalars.Value
parse_text, text_where = scalars.parse_text, scalars.text_where
YAML_SUFFIXES = (".yaml", ".yml")
_RESOLVERS = {
    "bool": (r"true|false", "tf"),
    "int": (r"[-+]?(?:0|[1-9][0-9]{0,17})", "-+0123456789"),
    "float": (r"[-+]?(?:0|[1-9][0-9]*)\.[0-9]+", "-+0123456789"),
    "null": (r"~|null|", ["~", "n", ""]),
}
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*|[0-9]+(?:[kMGT]i?B|[smhd]|ms)", re.ASCII)
_NOT_TEXTS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "all"))
_SCALARS: dict[object, str] = {bool: "true or false", int: "an integer", str: "a text in quotes"}
_T = TypeVar("_T", bound=msgspec.Struct)
_Value = TypeVar("_Value")
_Content = TypeVar("_Content")


_TEXT_TAG, _OBJECT_TAG = "tag:yaml.org,2002:str", "tag:yaml.org,2002:map"
_SURROGATE = re.compile("[\ud800-\udfff]")
_NOT_UNICODE = "a lone surrogate; expected Unicode text"


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # it has no types
    """Reads the scalars of the core schema of YAML 1.2."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}

    def compose_scalar_node(self, anchor: object) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        if _SURROGATE.search(node.value):
            raise yaml.MarkedYAMLError(problem=_NOT_UNICODE, problem_mark=node.start_mark)
        return node


for _name, (_pattern, _first) in _RESOLVERS.items():
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(f"(?:{_pattern})\\Z", re.ASCII), list(_first)
    )


def parse_duration(value: object) -> float:
    """Return the seconds of a duration with a unit, such as `200ms`, `90s` or `2h`."""
    return units.parse_duration(str(value))


def parse_size(value: object) -> int:
    """Return the bytes of a size, such as `4096`, `64KiB` or `256MiB`."""
    return units.parse_size(str(value))


def parse_natural(value: object) -> int:
    """Return an integer, 0 or more."""
    if type(value) is not int or value < 0:
        raise ValueError
    return value


def several(parse: Callable[[object], _Value]) -> Callable[[object], tuple[_Value, ...]]:
    """Return the parser of a value, or of a list of one or more."""

    def parse_all(value: object) -> tuple[_Value, ...]:
        values = value if isinstance(value, list) else [value]
        if not values:
            raise ValueError
        return tuple(map(parse, values))

    return parse_all


def mapping_of(
    parse: Callable[[object], _Value], parse_name: Callable[[object], str] = parse_text
) -> Callable[[object], dict[str, _Value]]:
    """Return the parser of a mapping with one or more names."""

    def parse_pairs(value: object) -> dict[str, _Value]:
        if not isinstance(value, dict) or not value:
            raise ValueError
        return {parse_name(name): parse(item) for name, item in value.items()}

    return parse_pairs


def _not_zero(parse: Callable[[object], float]) -> Callable[[object], float]:
    def parse_positive(value: object) -> float:
        number = parse(value)
        if number == 0:
            raise ValueError
        return number

    return parse_positive


Natural = Annotated[int, Value(parse_natural, "a number, 0 or more")]
Positive = Annotated[int, Value(_not_zero(parse_natural), "a number, 1 or more")]
Size = Annotated[int, Value(_not_zero(parse_size), "a size such as 4096, 64KiB, 900MiB or 1GB")]
_DURATION_EXAMPLES = "a duration such as 200ms, 90s, 2h, 1h30m or 1d"
Duration = Annotated[float, Value(parse_duration, _DURATION_EXAMPLES)]
PositiveDuration = Annotated[float, Value(_not_zero(parse_duration), _DURATION_EXAMPLES)]


def quote_text(text: str) -> str:
    """Return a text as YAML that is read as a text, of YAML 1.1 too."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXTS:
        return text
    return json.dumps(text, ensure_ascii=False)


PLACEHOLDER = "example"
"""The placeholder in drafts of `init` for a name that only the user knows: a host or a profile."""


def is_placeholder(text: str) -> bool:
    """Whether a value is a placeholder, or a URL whose host has it, as `docs.example.com` has."""
    host = text.partition("://")[2].partition("/")[0] or text
    return PLACEHOLDER in re.split("[.:@]", host)


PROFILES = "profiles"
"""The key of objects that are merged with the document when they are chosen by name."""

SET = "--set"
"""The place of a value that an override states."""


class Override(NamedTuple):
    """A value in place of that of a document: YAML, or a text. `key` is as `chunk.max_bytes`."""

    key: str
    text: str
    is_yaml: bool


class Layers(NamedTuple):
    """Values in place of those of a document: those of a profile, and then the overrides.

    Lists, and the objects of the keys in `whole`, are replaced; other objects are merged. A null
    removes the value of the document.
    """

    profile: str | None = None
    overrides: Sequence[Override] = ()
    whole: frozenset[str] = frozenset()


class Decoded(NamedTuple, Generic[_Content]):
    """What a document contains, None if it has errors, and where the value of each key is.

    A place is `FILE:LINE:COLUMN`, or SET. `tags` are those of tagged structs, by their keys; of an
    unknown one, the most similar. `replaced` are the keys at the top whose values are those of the
    chosen profile.
    """

    content: _Content | None
    errors: Sequence[str]
    places: Mapping[str, str]
    tags: Mapping[str, str]
    replaced: Sequence[str]


def read_yaml(path: Path, type_: type[_T]) -> _T:
    """Return the content of a file; raise ConfigError with a line for each error."""
    return decode_yaml(read_text(path), type_, name=str(path))


def read_text(path: Path) -> str:
    """Return the text of a file; raise ConfigError if it is not text."""
    try:
        return path.read_text("utf-8")
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}; expected a file that can be read") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path}: not UTF-8; expected YAML") from exc


def read_yaml_list(path: Path, type_: type[_T]) -> tuple[_T, ...]:
    """Return the items of a file that is a list; raise ConfigError with a line for each error."""
    text, name = read_text(path), str(path)
    return _content(_decode(text, name, lambda decoder, node: decoder.structs(node, type_)))


def decode_yaml(text: str, type_: type[_T], *, name: str) -> _T:
    """Return the content of a document called `name`; raise ConfigError with a line per error."""
    return _content(decode_located(text, type_, name=name))


def decode_located(
    text: str, type_: type[_T], *, name: str, layers: Layers | None = None
) -> Decoded[_T]:
    """Return the content of a document, its errors, and the places of its keys.

    With `layers`, the document may have profiles. Raises ConfigError if the text is not YAML, and
    for a profile that it does not have.
    """

    def decode(decoder: "_Decoder", node: yaml.Node | None) -> _T | None:
        if layers is not None and isinstance(node, yaml.MappingNode):
            node = decoder.layered(node, layers)
        return decoder.struct(node, type_, "")

    return _decode(text, name, decode)


def decode_key(path: Path, key: str, type_: type[_T]) -> _T:
    """Return a struct with one key of a file, which may have others; raise ConfigError.

    A file that is a list has the value of the key.
    """

    def decode(decoder: "_Decoder", node: yaml.Node | None) -> _T | None:
        if isinstance(node, yaml.SequenceNode):
            name = yaml.ScalarNode(_TEXT_TAG, key, node.start_mark, node.start_mark)
            node = yaml.MappingNode(_OBJECT_TAG, [(name, node)], node.start_mark)
        if isinstance(node, yaml.MappingNode):
            node.value = [pair for pair in node.value if _name_of(pair[0]) == key]
        return decoder.struct(node, type_, "")

    return _content(_decode(read_text(path), str(path), decode))


def read_scalars(path: Path) -> dict[str, str]:
    """Return the texts of the keys at the top of a file that have one, and check nothing else.

    Raises ConfigError if the file is not YAML.
    """
    return _content(_decode(read_text(path), str(path), lambda _, node: _scalars_of(node)))


def profiles_of(path: Path) -> tuple[str, ...]:
    """Return the names of the profiles of a file; raise ConfigError if it is not YAML."""

    def names(decoder: "_Decoder", node: yaml.Node | None) -> tuple[str, ...]:
        return (*decoder.split(node)[1],) if isinstance(node, yaml.MappingNode) else ()

    return _decode(read_text(path), str(path), names).content or ()


def _scalars_of(node: yaml.Node | None) -> dict[str, str]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return {_name_of(key): value.value for key, value in pairs if value.id == "scalar"}


def _content(decoded: Decoded[_Content]) -> _Content:
    if decoded.errors or decoded.content is None:
        raise ConfigError("\n".join(decoded.errors))
    return decoded.content


def _decode(
    text: str, name: str, decode: Callable[["_Decoder", yaml.Node | None], _Content | None]
) -> Decoded[_Content]:
    try:
        loader = _Loader(text)
        loader.name = name
        decoder = _Decoder(loader, name)
        content = decode(decoder, loader.get_single_node())
    except yaml.reader.ReaderError as exc:
        line = text.count("\n", 0, exc.position) + 1
        raise ConfigError(f"{name}:{line}: a control character; expected YAML") from exc
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        raise ConfigError(f"{_place(mark)}: {_explain(text, exc)}") from exc
    except RecursionError as exc:
        raise ConfigError(f"{name}: too many levels of brackets; expected at most 50") from exc
    return Decoded(content, decoder.errors, decoder.places, decoder.tags, decoder.replaced)


def _explain(text: str, exc: yaml.MarkedYAMLError) -> str:
    """Return the likely cause of a syntax error, without the words of the library."""
    if exc.problem == _NOT_UNICODE:
        return _NOT_UNICODE
    mark = exc.problem_mark or exc.context_mark
    line = text.splitlines()[mark.line] if mark.line < len(text.splitlines()) else ""
    if line[mark.column : mark.column + 1] == "\t" or line[: mark.column].strip(" ") == "\t":
        return "a tab; expected spaces"
    if line[mark.column : mark.column + 1] in tuple("%@`|>"):
        return f"a value that begins with {line[mark.column]}; expected it in quotes"
    return (
        "the YAML ends or breaks off here; expected KEY: VALUE, with the same indentation for the"
        " keys of a section, and closed quotes and brackets"
    )


def _place(mark: yaml.Mark) -> str:
    return SET if mark.name == SET else f"{mark.name}:{mark.line + 1}:{mark.column + 1}"


def _node_of(override: Override) -> yaml.Node:
    """Return an object with the value of an override; raise ConfigError if it is not YAML."""
    mark = yaml.Mark(SET, 0, 0, 0, None, None)
    node = yaml.ScalarNode(_TEXT_TAG, override.text, mark, mark)
    if override.is_yaml:
        try:
            loader = _Loader(override.text)
            loader.name = SET
            node = loader.get_single_node() or node
        except yaml.reader.ReaderError as exc:
            raise ConfigError(f"{SET} {override.key}: a control character; expected YAML") from exc
        except yaml.MarkedYAMLError as exc:
            reason = _explain(override.text, exc)
            raise ConfigError(f"{SET} {override.key}: {reason}") from exc
    for name in reversed(override.key.split(".")):
        node = yaml.MappingNode(
            _OBJECT_TAG, [(yaml.ScalarNode(_TEXT_TAG, name, mark, mark), node)], mark, mark
        )
    return node


class _Decoder:
    """Convert YAML nodes, and collect the errors. A value with an error becomes None."""

    def __init__(self, loader: yaml.SafeLoader, name: str) -> None:
        self._loader = loader
        self._name = name
        self.errors: list[str] = []
        self.places: dict[str, str] = {}
        self.tags: dict[str, str] = {}
        self.replaced: list[str] = []

    def layered(self, node: yaml.MappingNode, layers: Layers) -> yaml.MappingNode:
        """Return a document without its profiles, merged with the layers."""
        node, profiles = self.split(node)
        if (chosen := layers.profile) is not None:
            if chosen not in profiles:
                known = f"which has {', '.join(profiles)}" if profiles else "which has no profiles"
                hint = did_you_mean(chosen, profiles)
                raise ConfigError(f"--profile {chosen}: not in {self._name}, {known}{hint}")
            before = node.value
            node = self._merged(node, profiles[chosen], layers.whole)
            self.replaced = [_name_of(pair[0]) for pair in node.value if pair not in before]
        for override in layers.overrides:
            node = self._merged(node, _node_of(override), layers.whole)
        return node

    def split(self, node: yaml.MappingNode) -> tuple[yaml.MappingNode, dict[str, yaml.Node]]:
        """Return a document without its profiles, and these by their names."""
        pairs = self._unique(node, "")
        _, section = pairs.pop(PROFILES, (None, None))
        node = yaml.MappingNode(node.tag, [*pairs.values()], node.start_mark)
        if isinstance(section, yaml.MappingNode):
            named = self._unique(section, PROFILES).items()
            return node, {name: profile for name, (_, profile) in named}
        if section is not None:
            self._fail(section, PROFILES, f"{_kind(section)}; expected names with keys below them")
        return node, {}

    def _merged(
        self, node: yaml.MappingNode, over: yaml.Node, whole: Container[str], key: str = ""
    ) -> yaml.MappingNode:
        """Return an object with the values of another one in place of its own."""
        if not isinstance(over, yaml.MappingNode):
            self._fail(over, key, f"{_kind(over)}; expected keys and values")
            return node
        pairs = self._unique(node, key)
        for name, pair in self._unique(over, key).items():
            below, old, value = _join(key, name), pairs.get(name, pair)[1], pair[1]
            pairs[name] = pair
            if old is value:
                continue
            if value.tag.endswith(":null"):
                del pairs[name]
            elif isinstance(value, yaml.MappingNode) and below not in whole:
                if isinstance(old, yaml.MappingNode):
                    pairs[name] = (pair[0], self._merged(old, value, whole, below))
                elif not old.tag.endswith(":null"):
                    self._fail(value, below, f"keys; expected keys at {_place(old.start_mark)} too")
        return yaml.MappingNode(node.tag, [*pairs.values()], node.start_mark)

    def _unique(self, node: yaml.MappingNode, key: str) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        """Return the pairs of an object by their names, of which each is there once."""
        pairs: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        for pair in node.value:
            if (name := _name_of(pair[0])) in pairs:
                self._fail(pair[0], key, f"{name!r} twice; expected each key once")
            pairs[name] = pair
        return pairs

    def structs(self, node: yaml.Node | None, type_: type[_T]) -> tuple[_T, ...] | None:
        if not isinstance(node, yaml.SequenceNode):
            self._fail(node, "", f"{_kind(node)}; expected a list")
            return None
        items = [self.struct(item, type_, f"[{at}]") for at, item in enumerate(node.value)]
        return tuple(item for item in items if item is not None)

    def struct(
        self,
        node: yaml.Node | None,
        type_: type[_T],
        key: str,
        union: Iterable[type[msgspec.Struct]] = (),
    ) -> _T | None:
        """Return a struct; `union` are the structs that could be here, with other tags."""
        fields = {field.encode_name: field for field in _keys(type_)}
        names = [*([tag] if (tag := _tag_field(type_)) else []), *fields]
        if not isinstance(node, yaml.MappingNode):
            self._fail(node, key, f"{_kind(node)}; expected keys and values: {', '.join(names)}")
            return None
        count = len(self.errors)
        values: dict[str, object] = {}
        used: set[str] = set()
        for key_node, value_node in node.value:
            name = _name_of(key_node)
            place = _join(key, name)
            if name in used:
                self._fail(key_node, key, f"{name!r} twice; expected each key once")
            elif name in fields:
                self.places[place] = _place(value_node.start_mark)
                values[fields[name].name] = self.value(value_node, fields[name].type, place)
            elif name != tag:
                self._fail(key_node, key, _unknown(name, names, type_, union))
            else:
                self.places[place] = _place(value_node.start_mark)
                self.tags[place] = str(type_.__struct_config__.tag)
            used.add(name)
        for field in fields.values():
            if field.required and field.encode_name not in used:
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
            chosen = structs[0] if len(structs) == 1 else self._tagged(node, structs, key)
            return None if chosen is None else self.struct(node, chosen, key, structs)
        if structs and NoneType in get_args(type_) and node.tag.endswith(":null"):
            return None  # a section without keys
        items = [get_args(member)[0] for member in members if get_origin(member) is tuple]
        if items and isinstance(node, yaml.SequenceNode):
            numbered = enumerate(node.value)
            return tuple([self.value(item, items[0], f"{key}[{at}]") for at, item in numbered])
        return self._scalar(node, members, key) if self._has_no_secret(node, key) else None

    def _scalar(self, node: yaml.Node, members: Sequence[object], key: str) -> object:
        try:
            value = self._loader.construct_object(node, deep=True)
        except (ValueError, TypeError):  # a tag, or a list as a key
            self._fail(node, key, "not a plain value; expected one without a tag")
            return None
        expected = " or ".join(dict.fromkeys(chain.from_iterable(map(_describe, members))))
        message = f"{value!r}; expected {expected}"
        for member in members:
            try:
                return _convert(value, member)
            except ValueError as exc:
                if str(exc):
                    message = str(exc)
                    break
        self._fail(node, key, message)
        return None

    def _tagged(
        self, node: yaml.MappingNode, structs: Sequence[type[msgspec.Struct]], key: str
    ) -> type[msgspec.Struct] | None:
        """Return the struct that the tag names, or the most similar one after an error."""
        field = _tag_field(structs[0])
        by_tag = {str(struct.__struct_config__.tag): struct for struct in structs}
        expected = f"expected one of {', '.join(by_tag)}"
        for key_node, value_node in node.value:
            if _name_of(key_node) == field:
                name = _name_of(value_node)
                if name not in by_tag and self._has_no_secret(value_node, _join(key, field)):
                    message = f"{name!r}; {expected}{did_you_mean(name, by_tag)}"
                    self._fail(value_node, _join(key, field), message)
                return by_tag.get(name) or by_tag.get(closest(name, by_tag) or "")
        self._fail(node, _join(key, field), f"missing; {expected}")
        return None

    def _has_no_secret(self, node: yaml.Node, key: str) -> bool:
        """Report each secret in a value."""
        if not isinstance(node, yaml.ScalarNode):
            items = chain.from_iterable(node.value) if node.id == "mapping" else node.value
            checked = [self._has_no_secret(item, key) for item in items]
            return all(checked)
        try:
            check_no_secret(node.value)
        except ValueError as exc:
            self._fail(node, key, str(exc))
            return False
        return True

    def _fail(self, node: yaml.Node | None, key: str, message: str) -> None:
        place = f"{self._name}:1:1" if node is None else _place(node.start_mark)
        self.errors.append(f"{place}: {key}: {message}" if key else f"{place}: {message}")


def _kind(node: yaml.Node | None) -> str:
    return "an empty document" if node is None else f"a {node.id}"


def _name_of(node: yaml.Node) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else f"a {node.id}"


def _tag_field(type_: type[msgspec.Struct]) -> str:
    """Return the key of the tag of a tagged struct, "" of others."""
    return type_.__struct_config__.tag_field or ""


def _unknown(
    name: str,
    names: Sequence[str],
    type_: type[msgspec.Struct],
    union: Iterable[type[msgspec.Struct]],
) -> str:
    """Return the error of a key that a struct does not have."""
    expected = f"expected one of {', '.join(names)}"
    tags = [
        str(other.__struct_config__.tag)
        for other in union
        if name in {field.encode_name for field in _keys(other)}
    ]
    if tags:
        field, tag = _tag_field(type_), type_.__struct_config__.tag
        return f"{name!r}; not for {field}: {tag}, but for {', '.join(tags)}; {expected}"
    return f"{name!r}; {expected}{did_you_mean(name, names)}"


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
        try:
            return get_args(member)[1].parse(value)
        except ConfigError as exc:  # of a type that flags have too
            raise ValueError(exc) from None
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
    return f"{key}.{name}" if key else name
