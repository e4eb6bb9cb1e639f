"""A flag is declared once: its option, its help and its parser follow."""

import enum

import click
import msgspec
import pytest

from feedferry.pipelines.cli.click_flags import click_options
from feedferry.pipelines.cli.verb import Verb
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.options.flags import Flag, declare, decode, flags_of
from feedferry.pipelines.options.push_options import ApplianceOptions, PushOptions
from feedferry.pipelines.options.section import Section
from feedferry.pipelines.options.value_parsers import SIZE, count_of
from feedferry.pipelines.serve.settings import ServeSettings
from feedferry.schemas.errors import ConfigError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class ToyOptions(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    part_bytes: int = 2048
    colour: Colour = Colour.RED
    words: tuple[str, ...] = ()
    deep: bool = False
    verify: bool = True
    tries: int | None = None


declare(
    ToyOptions,
    Section.READ,
    part_bytes=Flag("Size of a part.", SIZE),
    colour=Flag("Colour."),
    words=Flag("Words.", metavar="WORD"),
)
declare(
    ToyOptions,
    Section.WRITE,
    deep=Flag("Look deeper.", names=("-d", "--deep")),
    verify=Flag("Do not verify."),
    tries=Flag("Tries.", count_of("times"), default="3"),
)


def toy(*args: str) -> ToyOptions:
    """Parse a command line of the toy options."""
    command = Verb(name="toy", flags=lambda name: click_options(ToyOptions))
    return decode(ToyOptions, {"name": "n", **command.make_context("toy", list(args)).params})


def test_without_flags_fields_have_their_defaults() -> None:
    assert toy() == ToyOptions(name="n")


def test_each_flag_sets_its_field() -> None:
    flags = ("--part-bytes", "1MB", "--colour", "blue", "--words", "a", "--words", "b")
    assert toy(*flags, "-d", "--no-verify", "--tries", "4") == ToyOptions(
        name="n",
        part_bytes=1_000_000,
        colour=Colour.BLUE,
        words=("a", "b"),
        deep=True,
        verify=False,
        tries=4,
    )


def test_a_value_is_refused_with_the_name_of_its_flag() -> None:
    with pytest.raises(ConfigError, match="--colour: 'blu'; expected one of red, blue; did you me"):
        toy("--colour", "blu")


def test_the_help_has_names_values_and_defaults_from_the_declaration() -> None:
    command = Verb(name="toy", flags=lambda name: click_options(ToyOptions, omit=("words",)))
    rows = command.flag_rows(click.Context(command))
    assert (rows["Input"], rows["Output"]) == (
        [
            ("--part-bytes SIZE", "Size of a part.  [default: 2KiB]"),
            ("--colour red|blue", "Colour.  [default: red]"),
        ],
        [
            ("-d, --deep", "Look deeper."),
            ("--no-verify", "Do not verify."),
            ("--tries N", "Tries.  [default: 3]"),
        ],
    )


@pytest.mark.parametrize("options", [ConvertOptions, ApplianceOptions, PushOptions, ServeSettings])
def test_a_default_in_the_help_is_read_as_the_default(options: type[msgspec.Struct]) -> None:
    flags = [flag for flag in flags_of(options).values() if not flag.flag.default]
    defaults = [flag for flag in flags if flag.default_text]
    assert defaults
    assert [flag.parse(flag.default_text) for flag in defaults] == [
        flag.default for flag in defaults
    ]
