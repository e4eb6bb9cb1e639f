"""Keys of a job for options that only some formats or appliances have."""

from collections.abc import Iterator
from typing import Annotated, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec

Own = TypeVar("Own", bound=msgspec.Struct)
"""A struct of options."""


class OwnKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key `target.NAME` of an option, as the annotation of its field in an options struct.

    The type of the field is a text, a number, or a switch that is off; a text may be the name of a
    file, or one of `choices`. A struct is the content of a YAML file, whose name is stated. A
    number is at least `minimum`, and has a `unit`. `convert` takes the key by `--set`.

    >>> class Options(msgspec.Struct):
    ...     pipeline: Annotated[str | None, OwnKey(help="Pipeline of documents.")] = None
    >>> [(option.name, option.key.help) for option in own_options_of(Options)]
    [('pipeline', 'Pipeline of documents.')]
    """

    help: str
    metavar: str = "NAME"
    is_file: bool = False
    choices: tuple[str, ...] = ()
    unit: str = ""
    minimum: int = 0


class OwnOption(NamedTuple):
    """An option that has a key."""

    name: str
    key: OwnKey
    type: object
    default: object


def own_options_of(options: type[msgspec.Struct]) -> Iterator[OwnOption]:
    """Yield the options of a struct whose fields have an `OwnKey`."""
    hints = get_type_hints(options, include_extras=True)
    for field in msgspec.structs.fields(options):
        hint = hints[field.name]
        if get_origin(hint) is Annotated:
            type_, *others = get_args(hint)
            for key in others:
                if isinstance(key, OwnKey):
                    yield OwnOption(field.name, key, type_, field.default)
