"""The words of a command line, each understood or refused with a cure."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.cli.convert_options import (
    ConvertOptions,
    EmptyMetadata,
    ProgressStyle,
    ReportFormat,
    parse,
)
from pipelines.cli.main import main
from pipelines.cli.value_parsers import (
    FieldMapping,
    RejectLimit,
    loss_fields,
    parse_chunk_bytes,
    parse_fields,
    parse_mappings,
    parse_mimetype,
    parse_positive_size,
    parse_rejects,
    parse_size,
    parse_zone,
)
from schemas.content import MAX_CONTENT_BYTES
from schemas.errors import ConfigError

MINIMUM = {"inputs": ("a.xml",), "output": "out", "to_format": "avro"}


def refusal(words: dict[str, object]) -> str:
    with pytest.raises(ConfigError) as caught:
        parse({**MINIMUM, **words})
    return str(caught.value)


def test_three_words_are_enough() -> None:
    assert parse(MINIMUM) == ConvertOptions(inputs=("a.xml",), output="out", to_format="avro")


def test_what_is_not_given_has_the_documented_default() -> None:
    assert parse(MINIMUM) == ConvertOptions(
        inputs=("a.xml",),
        output="out",
        to_format="avro",
        from_format=None,
        datasource=None,
        feedtype=None,
        dialect="7.x",
        max_chunk_bytes=943_718_400,
        span_bytes=33_554_432,
        max_content_bytes=20_971_520,
        jobs=1,
        max_rejects=None,
        accept_loss=frozenset(),
        fail_on_loss=frozenset(),
        zone="UTC",
        empty_metadata=EmptyMetadata.DROP,
        known_urls=None,
        allow_wide_deletes=False,
        default_mimetype=None,
        fields=(),
        fresh=False,
        runner=None,
        progress=ProgressStyle.AUTO,
        report_format=ReportFormat.TEXT,
        verbosity=0,
        beam_flags=(),
    )


def test_every_word_is_understood() -> None:
    assert parse(
        {
            "inputs": ("a.xml", "-"),
            "output": "out",
            "to_format": "gsa-feed",
            "from_format": "thunderstone",
            "datasource": "intranet",
            "feedtype": "full",
            "dialect": "5.0",
            "max_chunk_bytes": "1MiB",
            "span_bytes": "1MB",
            "max_content_bytes": "30MiB",
            "jobs": "2",
            "max_rejects": "0.5%",
            "accept_loss": "acl,crawl-once",
            "fail_on_loss": "title",
            "zone": "Europe/Berlin",
            "empty_metadata": "placeholder",
            "known_urls": "urls.txt",
            "allow_wide_deletes": True,
            "default_mimetype": "text/html",
            "fields": ("Author=author",),
            "fresh": True,
            "runner": "FlinkRunner",
            "progress": "plain",
            "report_format": "json",
            "verbosity": 2,
            "beam_flags": ("--parallelism=4",),
        }
    ) == ConvertOptions(
        inputs=("a.xml", "-"),
        output="out",
        to_format="gsa-feed",
        from_format="thunderstone",
        datasource="intranet",
        feedtype="full",
        dialect="5.0",
        max_chunk_bytes=1_048_576,
        span_bytes=1_000_000,
        max_content_bytes=31_457_280,
        jobs=2,
        max_rejects=RejectLimit(percent=Decimal("0.5")),
        accept_loss=frozenset({"acl", "crawl-once"}),
        fail_on_loss=frozenset({"title"}),
        zone="Europe/Berlin",
        empty_metadata=EmptyMetadata.PLACEHOLDER,
        known_urls="urls.txt",
        allow_wide_deletes=True,
        default_mimetype="text/html",
        fields=(FieldMapping("Author", "author"),),
        fresh=True,
        runner="FlinkRunner",
        progress=ProgressStyle.PLAIN,
        report_format=ReportFormat.JSON,
        verbosity=2,
        beam_flags=("--parallelism=4",),
    )


def test_a_word_that_was_not_given_does_not_count() -> None:
    assert parse({**MINIMUM, "jobs": None}).jobs == 1


def test_there_must_be_an_input() -> None:
    message = "INPUT: none given; expected files, folders, globs, uris or -"
    assert refusal({"inputs": ()}) == message


def test_there_must_be_an_output() -> None:
    message = "-o/--output: not given; see feedferry convert --help"
    assert refusal({"output": None}) == message


def test_there_must_be_a_format_to_write() -> None:
    assert refusal({"to_format": None}) == "--to: not given; see feedferry convert --help"


def test_a_format_that_is_not_known_is_refused_with_a_guess() -> None:
    assert refusal({"to_format": "gsa_fed"}) == (
        "--to: 'gsa_fed'; expected one of gsa-feed, thunderstone, lister-stream, retriever-stream, "
        "authorizer-stream, gsa-groups, avro, native; did you mean 'gsa-feed'?"
    )


def test_nothing_is_guessed_where_nothing_is_near() -> None:
    assert refusal({"from_format": "pdf"}) == (
        "--from: 'pdf'; expected one of files, database, spool, command, gsa-feed, thunderstone,"
        " lister-stream, retriever-stream, authorizer-stream, gsa-groups, groups-csv, avro, native"
    )


def test_a_datasource_is_refused_that_an_appliance_would_refuse() -> None:
    assert refusal({"datasource": "my source"}) == (
        "--datasource: 'my source'; expected a letter or _, then letters, digits, _ and -"
    )


def test_a_feedtype_is_one_of_three() -> None:
    assert refusal({"feedtype": "increment"}) == (
        "--feedtype: 'increment'; expected one of full, incremental, metadata-and-url; "
        "did you mean 'incremental'?"
    )


def test_a_dialect_is_one_of_two() -> None:
    assert refusal({"dialect": "6.0"}) == (
        "--dialect: '6.0'; expected one of 7.x, 5.0; did you mean '5.0'?"
    )


def test_empty_metadata_is_dropped_or_replaced() -> None:
    assert refusal({"empty_metadata": "keep"}) == (
        "--empty-metadata: 'keep'; expected one of drop, placeholder"
    )


def test_a_progress_style_is_one_of_four() -> None:
    assert refusal({"progress": "off"}) == (
        "--progress: 'off'; expected one of auto, bar, plain, none"
    )


def test_a_report_format_is_one_of_two() -> None:
    assert refusal({"report_format": "yaml"}) == "--format: 'yaml'; expected one of text, json"


def test_a_flag_that_is_refused_is_named_as_its_user_knows_it() -> None:
    assert refusal({"span_bytes": "0"}) == "--span-bytes: '0'; expected at least one byte"


def test_a_field_cannot_be_accepted_and_refused() -> None:
    assert refusal({"accept_loss": "acl,title", "fail_on_loss": "title,acl"}) == (
        "--accept-loss and --fail-on-loss: both name acl, title; expected only one to"
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4096", 4096),
        ("0", 0),
        ("12B", 12),
        ("1kB", 1000),
        ("64KiB", 65_536),
        ("900MiB", 943_718_400),
        ("900 MiB", 943_718_400),
        ("900mib", 943_718_400),
        ("1GB", 1_000_000_000),
        ("2TiB", 2_199_023_255_552),
    ],
)
def test_a_size_is_a_number_and_a_unit(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    "text", ["", "MiB", "-1", "1.5GiB", "1e9", "10 %", "1MiBs", "1_000", "9" * 19]
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_size(text)
    assert str(caught.value) == f"{text!r}; expected a size such as 4096, 64KiB, 900MiB or 1GB"


@given(st.text())
def test_a_size_is_understood_or_refused_whatever_it_is(text: str) -> None:
    try:
        size = parse_size(text)
    except ConfigError:
        size = 0
    assert size >= 0


def test_a_chunk_may_come_near_to_the_limit_of_the_appliance() -> None:
    assert parse_chunk_bytes("999999999") == 999_999_999


def test_a_chunk_may_not_reach_the_limit_of_the_appliance() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_chunk_bytes("1GB")
    assert str(caught.value) == (
        "'1GB' is 1000000000 bytes; expected less than 1000000000, "
        "for an appliance refuses such a feed"
    )


def test_a_chunk_may_be_as_small_as_64_kib() -> None:
    assert parse_chunk_bytes("64KiB") == 65_536


def test_a_chunk_may_not_be_smaller_than_64_kib() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_chunk_bytes("65535")
    assert str(caught.value) == "'65535' is 65535 bytes; expected at least 65536"


def test_a_span_may_be_as_small_as_a_byte() -> None:
    assert parse_positive_size("1") == 1


def test_a_reject_limit_may_be_a_number() -> None:
    assert parse_rejects("10") == RejectLimit(count=10)


def test_a_reject_limit_may_be_a_percentage() -> None:
    assert parse_rejects("0.5%") == RejectLimit(percent=Decimal("0.5"))


@pytest.mark.parametrize("text", ["", "%", "ten", "-1", "0.5", "101%", "1%%", "9" * 19])
def test_what_is_no_reject_limit_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rejects(text)
    assert str(caught.value) == (
        f"{text!r}; expected a number of records or a percentage, as 10 or 0.5%"
    )


def test_a_count_of_rejects_is_allowed_to_the_last() -> None:
    assert RejectLimit(count=10).allows(rejects=10, records=10)


def test_one_reject_more_than_the_count_is_too_many() -> None:
    assert not RejectLimit(count=10).allows(rejects=11, records=1_000_000)


def test_a_percentage_of_rejects_is_exact() -> None:
    assert RejectLimit(percent=Decimal("0.7")).allows(rejects=7, records=1000)


def test_one_reject_more_than_the_percentage_is_too_many() -> None:
    assert not RejectLimit(percent=Decimal("0.7")).allows(rejects=8, records=1000)


def test_no_reject_of_no_record_is_allowed() -> None:
    assert RejectLimit(percent=Decimal(0)).allows(rejects=0, records=0)


def test_fields_are_separated_by_commas() -> None:
    assert parse_fields("acl, next-check") == frozenset({"acl", "next-check"})


def test_a_field_that_is_not_known_is_refused_with_a_guess() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_fields("acl,acls")
    assert str(caught.value) == (
        "'acls'; expected a field of a record, such as acl or crawl-once; did you mean 'acl'?"
    )


def test_a_field_may_be_guessed_from_its_name_in_the_schema() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_fields("overwrite_acls")
    assert str(caught.value) == (
        "'overwrite_acls'; expected a field of a record, such as acl or crawl-once; "
        "did you mean 'overwrite-acls'?"
    )


def test_an_empty_list_of_fields_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_fields("")
    assert str(caught.value) == "''; expected a field of a record, such as acl or crawl-once"


@pytest.mark.parametrize("name", ["url", "action", "provenance", "crawl"])
def test_what_is_never_lost_as_a_whole_is_no_loss(name: str) -> None:
    assert name not in loss_fields()


@pytest.mark.parametrize("name", ["acl", "next-check", "crawl-once", "history"])
def test_what_a_target_may_not_hold_has_the_name_that_a_loss_has(name: str) -> None:
    assert name in loss_fields()


def test_a_mapping_is_split_at_its_last_equals_sign() -> None:
    assert parse_mappings(["a=b=c"]) == (FieldMapping("a=b", "c"),)


def test_mappings_keep_their_order() -> None:
    assert parse_mappings(["b=x", "a=x"]) == (FieldMapping("b", "x"), FieldMapping("a", "x"))


def test_a_mapping_that_is_said_twice_is_one() -> None:
    assert parse_mappings(["a=x", "a=x"]) == (FieldMapping("a", "x"),)


@pytest.mark.parametrize("text", ["a", "=x", "a=", "a=1x", "a=x y"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_mappings([text])
    assert str(caught.value) == (
        f"{text!r}; expected NAME=FIELD, where FIELD is a letter or _, "
        "then letters, digits, _ and -"
    )


def test_a_name_goes_to_one_field() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_mappings(["a=x", "a=y"])
    assert str(caught.value) == "'a' goes to 'x' and to 'y'; expected one field"


def test_a_zone_is_known_by_its_iana_name() -> None:
    assert parse_zone("America/New_York") == "America/New_York"


def test_a_zone_that_is_not_known_is_refused_with_a_guess() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_zone("europe/berlin")
    assert str(caught.value) == (
        "'europe/berlin'; expected an IANA time zone such as Europe/Berlin; did you mean "
        "'Europe/Berlin'?"
    )


@pytest.mark.parametrize("text", ["../../etc/passwd", "America", "", "a\0b"])
def test_what_is_no_zone_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_zone(text)
    assert str(caught.value).startswith(
        f"{text!r}; expected an IANA time zone such as Europe/Berlin"
    )


def test_a_mimetype_may_have_parameters() -> None:
    assert parse_mimetype("text/html; charset=utf-8") == "text/html; charset=utf-8"


@pytest.mark.parametrize("text", ["html", "text/", "text/html;", ""])
def test_what_is_no_mimetype_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_mimetype(text)
    assert str(caught.value) == f"{text!r}; expected a MIME type such as text/html"


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [(r"\0", "\0"), (r"\n", "\n"), (r"\r\n", "\r\n"), (r"\t", "\t"), (r"\\", "\\"), ("**", "**")],
)
def test_a_delimiter_may_be_written_with_escapes(text: str, delimiter: str) -> None:
    assert parse({**MINIMUM, "delimiter": text}).delimiter == delimiter


def test_a_delimiter_that_no_header_may_state_is_refused() -> None:
    assert refusal({"delimiter": "a|"}) == (
        "--delimiter: 'a' in the delimiter 'a|'; expected neither a letter, a digit nor one of"
        " : / - _ space = + [ ]"
    )


def test_only_a_command_stream_is_read_strictly() -> None:
    assert refusal({"strict": True, "from_format": "gsa-feed"}) == (
        "--strict: not for --from gsa-feed; expected a command stream, which is the one thing that"
        " has a deployed reader to be compared with"
    )


@pytest.mark.parametrize("name", [None, "lister-stream", "retriever-stream", "command"])
def test_a_command_stream_may_be_read_strictly(name: str | None) -> None:
    assert parse({**MINIMUM, "strict": True, "from_format": name}).strict


def test_a_base_url_is_checked_with_its_flag_named() -> None:
    message = refusal({"base_url": "adaptor/doc/"})

    assert message.startswith("--base-url: base url 'adaptor/doc/'; expected "), message


def test_a_template_is_checked_with_its_flag_named() -> None:
    assert refusal({"url_template": "http://x/"}).startswith("--url-template: template ")


def test_there_is_one_rule_only_for_the_urls_of_ids() -> None:
    both = {"base_url": "http://a.example.com/doc/", "url_template": "http://x/{id}"}

    assert refusal({**both}).startswith("--base-url: a base url 'http://a.example.com/doc/' and a ")


def test_what_is_not_found_is_skipped_or_deleted() -> None:
    assert refusal({"not_found": "keep"}) == ("--not-found: 'keep'; expected one of skip, delete")


@pytest.mark.parametrize("name", ["lister-stream", "retriever-stream", "authorizer-stream"])
def test_a_command_stream_has_no_feeds(name: str) -> None:
    assert refusal({"to_format": name, "datasource": "d"}) == (
        f"--datasource d: not for --to {name}, which has no feeds"
    )


def test_groups_feeds_are_not_of_metadata() -> None:
    assert refusal({"to_format": "gsa-groups", "feedtype": "metadata-and-url"}) == (
        "--feedtype metadata-and-url: not for --to gsa-groups; expected full or incremental"
    )


@pytest.mark.parametrize("feedtype", ["full", "incremental"])
def test_a_groups_feed_may_be_full_or_incremental(feedtype: str) -> None:
    words = {**MINIMUM, "to_format": "gsa-groups", "feedtype": feedtype}
    assert parse(words).feedtype == feedtype


@pytest.mark.parametrize("verb", ["convert", "serve"])
def test_the_help_states_the_default_limit_of_a_document(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "--help"]) == 0

    limit = f"{MAX_CONTENT_BYTES >> 20}MiB"
    stated = f"Most bytes of one document, decoded. [default: {limit}]"
    assert stated in " ".join(capsys.readouterr().out.split())
