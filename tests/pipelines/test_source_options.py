"""What is said of trees, databases and states on a command line, and what cannot be said."""

from decimal import Decimal

import pytest

from pipelines.cli.convert_options import parse
from schemas.errors import ConfigError
from transforms.formats.base import Docids

MINIMUM = {"inputs": ("pdfs",), "output": "out", "to_format": "gsa-feed"}


def refusal(words: dict[str, object]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse({**MINIMUM, **words})
    return str(caught.value)


def test_flags_of_a_tree_are_understood() -> None:
    options = parse(
        {
            **MINIMUM,
            "include": ("*.pdf", "*.txt"),
            "exclude": ("old/",),
            "hidden": True,
            "follow_links": True,
            "open_archives": True,
            "oversize": "metadata",
            "path_metadata": True,
            "charset": "windows-1252",
            "display_url": "file:///srv/{path}",
            "acl": "posix",
            "acl_namespace": "corp",
            "acl_everyone": "staff",
        }
    )
    assert (options.include, options.exclude) == (("*.pdf", "*.txt"), ("old/",))
    assert (options.hidden, options.follow_links, options.open_archives) == (True, True, True)
    assert (options.oversize, options.path_metadata) == ("metadata", True)
    assert (options.charset, options.display_url) == ("windows-1252", "file:///srv/{path}")
    assert (options.acl, options.acl_namespace, options.acl_everyone) == ("posix", "corp", "staff")


def test_flags_of_a_state_are_understood() -> None:
    words = {"state": "s", "refresh": True, "min_records": "10", "max_delete_percent": "2.5%"}
    options = parse({**MINIMUM, **words})
    assert (options.state, options.refresh) == ("s", True)
    assert (options.min_records, options.max_delete_percent) == (10, Decimal("2.5"))


def test_a_fifth_may_be_deleted_unless_told_otherwise() -> None:
    options = parse(MINIMUM)
    assert (options.min_records, options.max_delete_percent) == (1, Decimal(20))


@pytest.mark.parametrize("text", ["101", "-1", "many", "", "5 %"])
def test_a_percentage_is_of_a_hundred(text: str) -> None:
    assert refusal({"max_delete_percent": text}) == (
        f"--max-delete-percent: {text!r}; expected a percentage, as 5 or 0.5%"
    )


@pytest.mark.parametrize("text", ["-1", "1.5", ""])
def test_records_are_counted(text: str) -> None:
    assert refusal({"min_records": text}) == (
        f"--min-records: {text!r}; expected a number of records"
    )


def test_a_charset_is_one_that_is_known() -> None:
    assert refusal({"charset": "windows-1252x"}) == (
        "--charset: 'windows-1252x'; expected a charset such as windows-1252"
    )


def test_what_is_too_large_is_rejected_or_metadata() -> None:
    assert refusal({"oversize": "drop"}) == "--oversize: 'drop'; expected one of reject, metadata"


def test_a_database_needs_no_input_beside_its_mapping() -> None:
    words = {"output": "out", "to_format": "avro", "from_format": "database", "mapping": "p.yaml"}
    assert parse(words).inputs == ("p.yaml",)


def test_a_database_needs_a_mapping() -> None:
    with pytest.raises(ConfigError) as caught:
        parse({"output": "out", "to_format": "avro", "from_format": "database"})
    assert str(caught.value) == "--mapping: not given; expected the YAML file of a database"


def test_a_mapping_is_of_a_database() -> None:
    assert refusal({"mapping": "p.yaml"}) == (
        "--mapping: not for this source; expected --from database with it"
    )


@pytest.mark.parametrize(
    ("name", "value", "flag"),
    [
        ("include", ("*.pdf",), "--include"),
        ("hidden", True, "--hidden"),
        ("oversize", "metadata", "--oversize"),
        ("acl", "posix", "--acl"),
    ],
)
def test_flags_of_a_tree_are_not_for_a_feed(name: str, value: object, flag: str) -> None:
    assert refusal({name: value, "from_format": "gsa-feed"}) == (
        f"{flag}: not for this source; expected a tree (--from files)"
    )


@pytest.mark.parametrize("name", ["acl_namespace", "acl_everyone"])
def test_what_tells_of_posix_needs_it(name: str) -> None:
    flag = "--" + name.replace("_", "-")
    assert refusal({name: "corp", "acl": "people.csv"}) == (
        f"{flag}: nothing to go with it; expected --acl posix beside it"
    )


def test_a_refresh_is_of_a_state() -> None:
    assert refusal({"refresh": True}) == "--refresh: of no state; expected --state FILE beside it"


def test_a_full_feed_is_not_of_changes() -> None:
    assert refusal({"state": "s", "feedtype": "full"}) == (
        "--feedtype full: not with --state, as a full feed deletes what has not changed and so is"
        " not in it; --refresh sends all"
    )


def test_a_full_feed_may_be_of_a_refresh() -> None:
    assert parse({**MINIMUM, "state": "s", "feedtype": "full", "refresh": True}).refresh


@pytest.mark.parametrize("name", ["thunderstone", "retriever-stream", "lister-stream"])
def test_a_content_encoding_is_for_what_leaves_the_choice(name: str) -> None:
    assert refusal({"content_encoding": "zlib", "to_format": name}) == (
        f"--content-encoding zlib: not for --to {name}, which has one of its own; expected auto"
    )


def test_the_old_dialect_has_no_compression() -> None:
    assert refusal({"content_encoding": "zlib", "dialect": "5.0"}) == (
        "--content-encoding zlib: not for --dialect 5.0, which has no compression; expected auto or"
        " base64"
    )


def test_a_template_of_paths_is_no_template_of_ids() -> None:
    options = parse({**MINIMUM, "url_template": "https://docs.example.com/{path}"})
    from pipelines.cli.convert_options import docids

    assert docids(options) == Docids()


def test_a_tree_may_have_urls_that_no_adaptor_makes() -> None:
    words = {"from_format": "files", "base_url": "smb://files.example.com/share/"}
    assert parse({**MINIMUM, **words}).base_url == "smb://files.example.com/share/"


def test_flags_of_a_spool_are_understood() -> None:
    options = parse({**MINIMUM, "history": "all", "only": ("crm", "wiki")})
    assert (options.history, options.only) == ("all", ("crm", "wiki"))


def test_what_is_superseded_is_not_read_unless_told_otherwise() -> None:
    options = parse(MINIMUM)
    assert (options.history, options.only) == ("latest", ())


def test_a_history_is_one_of_two() -> None:
    assert refusal({"history": "some"}) == "--history: 'some'; expected one of latest, all"


@pytest.mark.parametrize(("name", "word"), [("history", "all"), ("only", ("crm",))])
def test_a_flag_of_a_spool_is_for_nothing_else(name: str, word: object) -> None:
    assert refusal({name: word, "from_format": "gsa-feed"}) == (
        f"--{name}: not for this source; expected a spool (--from spool)"
    )
