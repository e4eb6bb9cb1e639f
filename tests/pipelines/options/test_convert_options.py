"""Options of a conversion: each reaches its field, and combinations without sense are refused."""

from decimal import Decimal

import pytest

from feedferry.pipelines.options.convert_checks import docids, parse
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.choices import NotFound
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.share_limit import ShareLimit
from feedferry.schemas.span_size import AUTO
from feedferry.transforms.formats import Docids
from support.format_names import READ, SOURCE_NAMES, WRITTEN

MINIMUM = {"inputs": ("a.xml",), "output": "out", "to_format": "avro"}


def refusal(words: dict[str, object]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse({**MINIMUM, **words})
    return str(caught.value)


def test_defaults_are_the_documented_ones() -> None:
    options = parse({**MINIMUM, "jobs": None, "include": ()})
    assert options == ConvertOptions(inputs=("a.xml",), output="out", to_format="avro")
    assert (options.max_chunk_bytes, options.span_bytes) == (None, AUTO)
    assert (options.max_content_bytes, options.max_token_bytes) == (20_971_520, 16_777_216)
    assert (options.min_records, options.max_delete_percent) == (1, Decimal(20))
    assert (options.zone, options.dialect, options.delimiter) == ("UTC", None, "\0")


def test_each_option_is_parsed() -> None:
    words: dict[str, object] = {
        **{"inputs": ("a.xml", "-"), "output": "out", "to_format": "gsa-feed", "fresh": True},
        **{"from_format": "thunderstone", "datasource": "intranet", "feedtype": "full"},
        **{"dialect": "5.0", "empty_metadata": "placeholder", "known_urls": "urls.txt"},
        **{"allow_wide_deletes": True, "default_mimetype": "text/html", "zone": "Europe/Berlin"},
        **{"runner": "FlinkRunner", "beam_flags": ("--parallelism=4",)},
    }
    parsed = {
        "max_chunk_bytes": ("1MiB", 1_048_576),
        "span_bytes": ("1MB", 1_000_000),
        "jobs": ("2", 2),
        "max_rejects": ("0.5%", ShareLimit(percent=Decimal("0.5"))),
        "accept_loss": ("acl,crawl-once", frozenset({"acl", "crawl-once"})),
        "fields": (("Author=author",), (("Author", "author"),)),
        "delimiter": (r"\n", "\n"),
        "not_found": ("delete", NotFound.DELETE),
        "min_records": ("10", 10),
        "max_delete_percent": ("2.5%", Decimal("2.5")),
    }
    options = parse({**words, **{name: text for name, (text, _) in parsed.items()}})
    expected = {**words, **{name: value for name, (_, value) in parsed.items()}}
    assert {name: getattr(options, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"inputs": ()}, "INPUT: none given; expected files, folders, globs, URLs or -"),
        ({"output": None}, "-o: not given; expected DIR|URI; see --help"),
        ({"to_format": None}, "--to: not given; expected FORMAT; see --help"),
        (
            {"to_format": "gsa_fed"},
            f"--to: 'gsa_fed'; expected one of {WRITTEN}; did you mean 'gsa-feed'?",
        ),
        (
            {"from_format": "pdf"},
            f"--from: 'pdf'; expected one of {SOURCE_NAMES}, {READ}",
        ),
        (
            {"datasource": "my source"},
            "--datasource: 'my source'; expected a letter or _, then letters, digits, _ and -,"
            " at most 250",
        ),
        (
            {"accept_loss": "acl,title", "fail_on_loss": "title,acl"},
            "--accept-loss and --fail-on-loss: both name acl, title; expected each field in one of"
            " them",
        ),
        (
            {"delimiter": "a|"},
            "--delimiter: 'a' in the delimiter 'a|'; expected neither a letter, a digit nor one of"
            " : / - _ space = + [ ]",
        ),
        (
            {"strict": True, "from_format": "gsa-feed"},
            "--strict: not for --from gsa-feed; expected a command stream",
        ),
        (
            {"encoding": "utf-8", "from_format": "avro"},
            "--encoding: not for --from avro; expected a format in XML: gsa-feed, thunderstone,"
            " gsa-groups",
        ),
        ({"mapping": "p.yaml"}, "--mapping: not for this source; expected it with --from database"),
        (
            {"from_format": "database", "inputs": ()},
            "--mapping: not given; expected the YAML file of a database",
        ),
        ({"refresh": True}, "--refresh: given without --state FILE; expected both"),
        (
            {"state": "s", "feedtype": "full"},
            "--feedtype full: not with --state, because a full feed deletes documents that are not"
            " in it, and unchanged documents are left out; --refresh sends all",
        ),
        (
            {"content_encoding": "zlib", "to_format": "thunderstone"},
            "--content-encoding zlib: not for --to thunderstone, which has its own encoding;"
            " expected auto",
        ),
        (
            {"content_encoding": "zlib", "to_format": "gsa-feed", "dialect": "5.0"},
            "--content-encoding zlib: not for --dialect 5.0, which has no compression; expected"
            " auto or base64",
        ),
        (
            {"to_format": "gsa-groups", "feedtype": "metadata-and-url"},
            "--feedtype metadata-and-url: not for --to gsa-groups; expected full or incremental",
        ),
        (
            {"to_format": "lister-stream", "datasource": "d"},
            "--datasource d: not for --to lister-stream, which has no feeds",
        ),
        (
            {"acl_everyone": "corp", "acl": "people.csv"},
            "--acl-everyone: given without --acl posix; expected both",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_unusable_options_are_refused(words: dict[str, object], message: str) -> None:
    assert refusal(words) == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"span_bytes": "0"}, "--span-bytes: '0'; expected auto, or a size such as 32MiB"),
        ({"span_bytes": "Auto"}, "--span-bytes: 'Auto'; expected auto, or a size such as 32MiB"),
        ({"base_url": "adaptor/doc/"}, "--base-url: base url 'adaptor/doc/'; expected "),
        ({"url_template": "http://x/"}, "--url-template: template "),
        (
            {"base_url": "http://a.example.com/doc/", "url_template": "http://x/{id}"},
            "--base-url: a base url 'http://a.example.com/doc/' and a ",
        ),
    ],
)
def test_a_rule_for_document_ids_is_checked_with_its_flag_named(
    words: dict[str, object], message: str
) -> None:
    assert refusal(words).startswith(message)


@pytest.mark.parametrize(
    "words",
    [
        *({"strict": True, "from_format": name} for name in (None, "lister-stream", "adaptor")),
        *({"to_format": "gsa-groups", "feedtype": name} for name in ("full", "incremental")),
        {"state": "s", "feedtype": "full", "refresh": True},
        {"from_format": "files", "base_url": "smb://files.example.com/share/"},
    ],
    ids=str,
)
def test_other_combinations_are_accepted(words: dict[str, object]) -> None:
    parse({**MINIMUM, **words})


def test_the_input_of_a_database_is_its_mapping() -> None:
    words = {"output": "out", "to_format": "avro", "from_format": "database", "mapping": "p.yaml"}
    assert parse(words).inputs == ("p.yaml",)


def test_a_template_of_paths_is_no_rule_for_document_ids() -> None:
    options = parse({**MINIMUM, "url_template": "https://docs.example.com/{path}"})
    assert docids(options) == Docids()
