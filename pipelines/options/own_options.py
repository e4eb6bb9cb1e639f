"""The options that formats and appliances declare: keys below `target`, without flags."""

from collections.abc import Iterable, Mapping
from functools import cache, partial

import msgspec

from feedferry.pipelines.options.flags import FieldFlag, Flag, SourceOrFormat
from feedferry.pipelines.options.section import Section
from feedferry.pipelines.options.value_parsers import PATH, TEXT, ValueType, choice, count_of
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.own_key import OwnKey, OwnOption, own_options_of
from feedferry.schemas.setting import OWN
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
    """Return those values that a struct of options declares."""
    return {option.name: own[option.name] for option in own_options_of(kind) if option.name in own}


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
    return FieldFlag(OWN + option.name, flag, option.type, option.default)


def _value_type(key: OwnKey, type_: object) -> ValueType:
    if type_ is int:
        return count_of(key.unit or "numbers", minimum=key.minimum)
    if key.choices:
        return choice(*key.choices)
    return PATH if key.is_file else TEXT


def _is_of(formats: frozenset[str], kind: SourceOrFormat) -> bool:
    return kind.name in formats
