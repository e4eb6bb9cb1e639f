"""Flags of the command line, each declared once, as a field of an options struct.

::

    class ConvertOptions(msgspec.Struct, frozen=True, kw_only=True):
        zone: str = "UTC"

    declare(ConvertOptions, Section.READ, zone=Flag("Time zone of dates that state none.", ZONE))

The field gives the name of the flag (`--zone`), its type and its default. `decode` makes the struct
from texts. A field without a `Flag` is not a flag.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol, TypeVar, get_origin, get_type_hints

import msgspec

from feedferry.pipelines.options.section import Section
from feedferry.pipelines.options.value_parsers import REPEATED_TEXT, TEXT, ValueType, choice_of
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.setting import Setting, as_flag

Options = TypeVar("Options", bound=msgspec.Struct)


_PARTS = {
    **dict.fromkeys((Section.READ, Section.TREE, Section.SPOOL, Section.STREAM), "source"),
    Section.WRITE: "target",
    Section.APPLIANCE: "push",
    Section.SCHEDULE: "schedule",
}
"""The parts of a job file that hold all flags of a section."""


class SourceOrFormat(Protocol):
    """A source or a format, which the predicates of flags ask; their types load the codecs."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True)
class Flag:
    """How a field of an options struct is given on the command line.

    Without `names`, the flag is called like the field. Without a `value`, the type of the field
    decides. `metavar` replaces the placeholder of the value type. `default` is shown in the help
    where the default of the field is `None`. A run is only resumed with the same values of all
    flags that have `affects_output`. `key` is the path of the same setting in a job file, such as
    `chunk.max_bytes`; flags of some sections have one by default, and `None` means none. `fits`
    takes the object of a source or target, and returns whether its type has the key.
    """

    help: str
    value: ValueType | None = None
    section: Section = Section.RUN
    names: tuple[str, ...] = ()
    key: str | None = ""
    fits: Callable[[SourceOrFormat], bool] = lambda kind: True
    metavar: str = ""
    default: str = ""
    affects_output: bool = True


@dataclass(frozen=True)
class FieldFlag:
    """The flag of one field of a struct: its declaration with the type and default of the field."""

    field: str
    flag: Flag
    type: object
    default: object
    is_required: bool = False

    @property
    def key(self) -> str:
        """Return the key in a job file, "" if there is none."""
        part = _PARTS.get(self.flag.section)
        return f"{part}.{self.field}" if part and self.flag.key == "" else self.flag.key or ""

    @property
    def value(self) -> ValueType:
        if self.flag.value is not None:
            return self.flag.value
        if isinstance(self.type, type) and issubclass(self.type, enum.Enum):
            return choice_of(*self.type)
        return REPEATED_TEXT if self.is_repeatable else TEXT

    @property
    def is_switch(self) -> bool:
        """Whether the flag takes no value."""
        return self.type is bool

    @property
    def is_argument(self) -> bool:
        """Whether the value is given without the name of a flag."""
        return not self.names[-1].startswith("-")

    @property
    def is_repeatable(self) -> bool:
        return get_origin(self.type) is tuple

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names; a switch that is on by default has the name that turns it off."""
        if self.flag.names:
            return self.flag.names
        name = as_flag(Setting(self.field))
        return (name.replace("--", "--no-") if self.default is True else name,)

    @property
    def metavar(self) -> str:
        return "" if self.is_switch else self.flag.metavar or self.value.metavar

    @property
    def default_text(self) -> str:
        """Return the default as a user would write it, nothing if there is none."""
        if self.flag.default or self.is_switch or not self.default:
            return self.flag.default
        return self.value.format(self.default)

    def parse(self, word: object) -> object:
        """Return the value of a text, or of the texts of a repeatable flag.

        Raises ConfigError, which begins with the name of the flag.
        """
        if isinstance(word, bool):
            return word
        try:
            return self.value.parse(word)
        except ConfigError as exc:
            raise ConfigError(f"⟦{self.field}⟧: {exc.text}") from exc


_declared: dict[type[msgspec.Struct], dict[str, Flag]] = {}


def declare(
    options: type[msgspec.Struct],
    section: Section,
    fits: Callable[[SourceOrFormat], bool] | None = None,
    **flags: Flag,
) -> None:
    """Declare the flags of some fields of a struct, under one heading of the help.

    `fits` is that of all these flags.
    """
    own = _declared.setdefault(options, {})
    for name, flag in flags.items():
        own[name] = replace(flag, section=section, fits=fits or flag.fits)


@cache
def flags_of(options: type[msgspec.Struct]) -> dict[str, FieldFlag]:
    """Return the flags of a struct and of those that it extends, as they were declared."""
    hints = get_type_hints(options)
    declared = {
        name: flag
        for struct in reversed(options.__mro__)
        for name, flag in _declared.get(struct, {}).items()
    }
    fields = {info.name: info for info in msgspec.structs.fields(options)}
    return {
        name: FieldFlag(
            name,
            flag,
            hints[name],
            None if (info := fields[name]).required else info.default,
            info.required,
        )
        for name, flag in declared.items()
    }


def shared_options(options: msgspec.Struct, kind: type[msgspec.Struct]) -> dict[str, object]:
    """Return the options that another struct has too, under the same names."""
    names = {*kind.__struct_fields__} & {*options.__struct_fields__}
    return {name: getattr(options, name) for name in names}


def decode(options: type[Options], words: Mapping[str, object]) -> Options:
    """Return the struct whose fields have the texts in `words`; others keep their defaults.

    A word that is `None` or empty was not given. Words of other structs are ignored. Raises
    ConfigError for a required word that was not given, and for the first that cannot be used.
    """
    for name, declared in flags_of(options).items():
        if declared.is_required and words.get(name) in (None, ()):
            raise ConfigError(f"⟦{name}⟧: not given; expected {declared.metavar}; see --help")
    flags, names = flags_of(options), options.__struct_fields__
    given = {
        name: flags[name].parse(word) if name in flags else word
        for name, word in words.items()
        if name in names and word is not None and word != ()
    }
    return options(**given)
