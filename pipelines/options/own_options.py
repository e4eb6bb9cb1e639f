"""The options that formats and appliances declare: keys below `target`, without flags."""

from collections.abc import Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import get_args

import msgspec

from feedferry.pipelines.options.flags import FieldFlag, Flag, SourceOrFormat
from feedferry.pipelines.options.section import Section
from feedferry.pipelines.options.value_parsers import PATH, TEXT, ValueType, choice, count_of
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.own_key import OwnKey, OwnOption, own_options_of
from feedferry.schemas.setting import OWN
from feedferry.transforms.config.yaml_structs import read_text, read_yaml
from feedferry.transforms.formats import FORMATS
from feedferry.transforms.sinks.push.wire.address import APPLIANCES

_Kinds = dict[type[msgspec.Struct], frozenset[str]]


@cache
def own_flags() -> Mapping[str, FieldFlag]:
    """Return the declarations of all options, by `target_` and the name of the option.

    Raise ConfigError for a name that two structs declare as different keys.
    """
    flags: dict[str, FieldFlag] = {}
    declared: dict[str, tuple[OwnKey, frozenset[str]]] = {}
    for kind, formats in _kinds().items():
        for option in own_options_of(kind):
            name = option.name
            other, others = declared.get(name, (option.key, frozenset()))
            if other != option.key:
                raise ConfigError(
                    f"{kind.__module__}.{kind.__name__}: the key target.{name} is that of"
                    f" {', '.join(sorted(others))} too; expected another name"
                )
            declared[name] = other, formats | others
            flags[OWN + name] = _flag(option, formats | others)
    return flags


def own_values(words: Mapping[str, object]) -> dict[str, object]:
    """Return the values of the options that are stated, by their names."""
    return {
        field.removeprefix(OWN): declared.parse(words[field])
        for field, declared in own_flags().items()
        if words.get(field) is not None
    }


def chosen_of(own: Mapping[str, object], kind: type[msgspec.Struct]) -> dict[str, object]:
    """Return those values that a struct of options declares, with the contents of files."""
    return {
        option.name: _read(option, own[option.name])
        for option in own_options_of(kind)
        if option.name in own
    }


def texts_of_files(own: Mapping[str, object]) -> dict[str, str]:
    """Return the texts of the files that options name, which affect a run as the options do."""
    names = {
        option.name for kind in _kinds() for option in own_options_of(kind) if option.key.is_file
    }
    return {name: read_text(Path(str(own[name]))) for name in sorted(names & own.keys())}


def _read(option: OwnOption, value: object) -> object:
    """Return the value of an option; raise ConfigError for a file that cannot be read."""
    content = _content_of(option)
    if content is None:
        return value
    try:
        return read_yaml(Path(str(value)), content)
    except ConfigError as exc:
        raise ConfigError(f"⟦{OWN}{option.name}⟧ {exc.text}") from exc


def _content_of(option: OwnOption) -> type[msgspec.Struct] | None:
    """Return the struct of the content of a file, None for an option that is no struct."""
    members = (option.type, *get_args(option.type))
    structs = (each for each in members if isinstance(each, type))
    return next((each for each in structs if issubclass(each, msgspec.Struct)), None)


def _kinds() -> _Kinds:
    """Return the structs that declare keys, each with the formats of the targets that have it."""
    kinds: _Kinds = {}

    def add(structs: Iterable[type[msgspec.Struct]], names: Iterable[str]) -> None:
        for struct in structs:
            kinds[struct] = kinds.get(struct, frozenset()) | {*names}

    for format_ in FORMATS:
        add(format_.options, (format_.name,))
    for kind in APPLIANCES:
        names = [name for endpoint in kind.endpoints for name in endpoint.formats]
        add(() if kind.options is None else (kind.options,), names)
    return kinds


def _flag(option: OwnOption, formats: frozenset[str]) -> FieldFlag:
    key = option.key
    metavar = "N" if option.type is int else key.metavar
    flag = Flag(
        key.help,
        _value_type(key, option.type),
        section=Section.WRITE,
        key=f"target.{option.name}",
        fits=partial(_is_of, formats),
        metavar="" if key.choices else metavar,
    )
    type_ = option.type if _content_of(option) is None else str | None
    return FieldFlag(OWN + option.name, flag, type_, option.default)


def _value_type(key: OwnKey, type_: object) -> ValueType:
    if type_ is int:
        return count_of(key.unit or "numbers", minimum=key.minimum)
    if key.choices:
        return choice(*key.choices)
    return PATH if key.is_file else TEXT


def _is_of(formats: frozenset[str], kind: SourceOrFormat) -> bool:
    return kind.name in formats
