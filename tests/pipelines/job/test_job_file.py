"""Job files: settings with their origins, and all errors with their places."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path

import pytest

from feedferry.pipelines.job.file.job import Job, Retention
from feedferry.pipelines.job.file.job_file import is_job_file, load_job
from feedferry.schemas.errors import (
    BusyError,
    ConfigError,
    FatalError,
    FeedferryError,
    LossRefusedError,
    UnreadableError,
)
from feedferry.schemas.share_limit import ShareLimit
from support.archives import put
from support.format_names import READ, SOURCE_NAMES

PUSHED = """\
version: 1
job: gsa-to-thunderstone
source:    {type: gsa-feed, path: ["archive/*.xml.gz"]}
target:
  type: thunderstone
  url: http://search.example.com/texis/dowalk/recvdata.xml
  profile: intranet
chunk:     {max_bytes: 64MiB}
push:
  backlog: {ceiling: 40, floor: 10, interval: 1m}
  timeout: {connect: 5s, read: 1h30m}
  on_refusal: stop
rejects:   {max: 0.1%}
loss:      {accept: [content], fail_on: [acl]}
safety:    {min_records: 1000, max_delete_percent: 5}
schedule:  {window: 20:00-06:00 Europe/Berlin, deadline: 22:00}
keep:      {runs: 14}
jobs:      2
"""
TREE = """\
version: 1
job: pdfs
source: {type: files, path: docs, base_url: "https://${env:HOST}/"}
target: {type: gsa-feed, datasource: pdfs}
"""


def load(
    folder: Path, text: str, words: Mapping[str, object] | None = None, **environment: str
) -> Job:
    path = Path(put(folder / "job.yaml", text.encode()))
    return load_job(path, words or {}, {"HOST": "docs.example.com", **environment})


def errors(folder: Path, text: str, **environment: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(folder, text, {}, **environment)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


def test_a_job_has_the_settings_of_its_file(tmp_path: Path) -> None:
    job = load(tmp_path, PUSHED)
    options, push = job.convert, job.push
    assert (job.name, job.home) == ("gsa-to-thunderstone", tmp_path / "runs/gsa-to-thunderstone")
    assert (job.has_state, job.keep) == (False, Retention(runs=14))
    assert options.inputs == (f"{tmp_path}/archive/*.xml.gz",)
    assert (options.from_format, options.to_format) == ("gsa-feed", "thunderstone")
    assert (options.max_chunk_bytes, options.jobs) == (64 << 20, 2)
    assert options.max_rejects == ShareLimit(percent=Decimal("0.1"))
    assert (options.accept_loss, options.fail_on_loss) == (
        frozenset({"content"}),
        frozenset({"acl"}),
    )
    assert (options.min_records, options.max_delete_percent) == (1000, Decimal(5))
    assert push is not None
    assert (push.appliance.url, push.appliance.profile) == (
        "http://search.example.com/texis/dowalk/recvdata.xml",
        "intranet",
    )
    assert (push.backlog.ceiling, push.backlog.floor, push.backlog.interval_seconds) == (40, 10, 60)
    assert (push.appliance.connect_seconds, push.appliance.reply_seconds) == (5, 5400)
    assert push.on_refusal.value == "stop"
    assert push.window is not None
    assert push.window.text == "20:00-06:00 Europe/Berlin"
    assert push.deadline is not None


def test_a_tree_has_a_state_in_its_home(tmp_path: Path) -> None:
    job = load(tmp_path, TREE)
    assert (job.has_state, job.push) == (True, None)
    assert job.convert.state == str(tmp_path / "runs/pdfs/state")
    assert job.convert.base_url == "https://docs.example.com/"


@pytest.mark.parametrize(
    "text",
    [
        TREE + "state: false",
        TREE.replace("pdfs}", "pdfs, feedtype: full}"),
        TREE.replace("path: docs", "path: [docs, drafts]"),
    ],
)
def test_a_job_without_state_has_none(tmp_path: Path, text: str) -> None:
    job = load(tmp_path, text)
    assert (job.has_state, job.convert.state) == (False, None)


def test_a_flag_precedes_a_variable_and_that_the_file(tmp_path: Path) -> None:
    words: dict[str, object] = {"jobs": "4", "include": (), "zone": None}
    job = load(tmp_path, PUSHED, words, FEEDFERRY_JOBS="3", FEEDFERRY_CHUNK_MAX_BYTES="1MiB")
    assert (job.convert.jobs, job.convert.max_chunk_bytes) == (4, 1 << 20)
    shown = ("jobs", "chunk.max_bytes", "rejects.max", "source.zone", "source.type")
    assert [job.origins[key].replace(f"{tmp_path}/", "") for key in shown] == [
        "flag --jobs",
        "environment FEEDFERRY_CHUNK_MAX_BYTES",
        "job.yaml:13:18",
        "default",
        "job.yaml:3:19",
    ]


@pytest.mark.parametrize(
    ("text", "keep"), [("14 runs", Retention(runs=14)), ("30d", Retention(seconds=30 * 86400.0))]
)
def test_retention_has_a_short_form(tmp_path: Path, text: str, keep: Retention) -> None:
    assert load(tmp_path, f"{TREE}keep: {text}").keep == keep


def test_a_number_alone_is_no_retention(tmp_path: Path) -> None:
    (error,) = errors(tmp_path, f"{TREE}keep: 14")
    assert error == "job.yaml:5:7: keep: 14; expected an age or a number, as 30d or 14 runs"


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    text = """\
version: 2
job: ../x
source: {type: gsa-fed, path: 7, include: "*"}
target: {type: thunderstone, url: "http://u:hunter2@h/", profil: x}
transform: [{drop: {}}]
push: {timeout: {connect: 10}}
"""
    target = (
        "type, empty_metadata, urls, default_mimetype, fields, known_urls, allow_wide_deletes,"
        " url, profile, ca_file, proxy, auth"
    )
    assert errors(tmp_path, text, FEEDFERRY_JOBS="x") == [
        "job.yaml:1:10: version: 2; expected 1",
        "job.yaml:2:6: job: '../x'; expected the name of a folder: at most 100 letters, digits, -,"
        " _ and ., without . or - at its beginning",
        f"job.yaml:3:16: source.type: 'gsa-fed'; expected one of {SOURCE_NAMES}, {READ},"
        " feeds; did you mean 'gsa-feed'?",
        "job.yaml:3:31: source.path: 7; expected a list: [INPUT]",
        "job.yaml:3:34: source: 'include'; not for type: gsa-feed, but for files; expected one of"
        " type, path, encoding, zone, span_bytes, max_content_bytes",
        "job.yaml:4:35: target.url: a password in plain text; expected ${env:NAME} or ${file:PATH}"
        " instead",
        f"job.yaml:4:58: target: 'profil'; expected one of {target}; did you mean 'profile'?",
        "job.yaml:5:20: transform[0].drop: no condition; expected one, such as url",
        "job.yaml:6:27: push.timeout.connect: '10'; expected a duration such as 200ms, 90s, 2h,"
        " 1h30m or 1d",
        "FEEDFERRY_JOBS: 'x'; expected a number of processes, 1 or more",
    ]


def test_conflicts_name_keys_and_places(tmp_path: Path) -> None:
    text = TREE.replace("pdfs}", 'my pdfs, dialect: "5.0", content_encoding: zlib, profile: x}')
    assert errors(tmp_path, text) == [
        "job.yaml:4:81: target.content_encoding zlib: not for target: {dialect: 5.0} (--set"
        " target.dialect=5.0), which has no compression; expected auto or base64",
        "job.yaml:4:38: target.datasource: 'my pdfs'; expected a letter or _, then letters, digits,"
        " _ and -, at most 250",
        "job.yaml:4:96: target.profile: given without target: {url: URL} (--set target.url=URL);"
        " expected both",
    ]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            LossRefusedError("acl: 2 principals; ⟦accept_loss acl⟧ goes on without it"),
            "acl: 2 principals; loss: {accept: [acl]} (--set loss.accept=acl) goes on without it",
        ),
        (
            FatalError(
                "a full feed has holes; ⟦accept_holes⟧ goes on, ⟦feedtype metadata-and-url⟧"
            ),
            "a full feed has holes; safety: {accept_holes: true} (--set safety.accept_holes=true)"
            " goes on,"
            " target: {feedtype: metadata-and-url} (--set target.feedtype=metadata-and-url)",
        ),
        (
            BusyError("no reply; raise ⟦reply_timeout⟧, or check ⟦url⟧: ⟦known_urls⟧ lists more"),
            "no reply; raise push.timeout.read, or check target.url: target.known_urls lists more",
        ),
        (
            UnreadableError("a.xml", "encoding", "⟦encoding utf-8⟧ reads it"),
            "a.xml: source: {encoding: utf-8} (--set source.encoding=utf-8) reads it",
        ),
    ],
)
def test_an_error_of_a_job_names_keys_and_flags_once(
    tmp_path: Path, error: FeedferryError, text: str
) -> None:
    job = load(tmp_path, TREE)
    with pytest.raises(type(error)) as caught, job.errors_in_keys(), job.errors_in_keys():
        raise error
    assert str(caught.value).removeprefix(f"{job.path}:").partition(" ")[2] == text


def test_a_conflict_names_the_variable_that_states_a_value(tmp_path: Path) -> None:
    text = TREE.replace("pdfs}", 'pdfs, dialect: "5.0"}')
    assert errors(tmp_path, text, FEEDFERRY_TARGET_CONTENT_ENCODING="zlib") == [
        "FEEDFERRY_TARGET_CONTENT_ENCODING zlib: not for target: {dialect: 5.0} (--set"
        " target.dialect=5.0), which has no compression; expected auto or base64"
    ]


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("false", False)])
def test_a_variable_of_a_switch_is_true_or_false(
    tmp_path: Path, text: str, *, expected: bool
) -> None:
    job = load(tmp_path, TREE, FEEDFERRY_SAFETY_ACCEPT_HOLES=text)
    assert job.convert.accept_holes is expected


def test_a_flag_that_was_given_stays_a_flag(tmp_path: Path) -> None:
    job = load(tmp_path, TREE, {"max_rejects": "1"})
    assert job.reword("2 rejects; ⟦max_rejects⟧ allows 1") == "2 rejects; --max-rejects allows 1"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, "another name") for name in ("pushed", "generations.jsonl")),
        *(
            (name, "the name of")
            for name in ("a b", "..", "-a", "a/b", "a\\x1b[2J", "a:b", "x" * 101)
        ),
    ],
)
def test_a_job_has_the_name_of_a_folder_of_its_own(
    tmp_path: Path, name: str, expected: str
) -> None:
    (error,) = errors(tmp_path, TREE.replace("job: pdfs", f'job: "{name}"'))
    assert error.startswith("job.yaml:2:6: job: ")
    assert f"; expected {expected}" in error


@pytest.mark.parametrize("name", ["a", "nächtlich-2.x_y"])
def test_the_name_of_a_job_has_letters_digits_and_a_few_marks(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, TREE.replace("job: pdfs", f"job: {name}")).home.name == name


def test_a_secret_is_looked_up_and_not_shown(tmp_path: Path) -> None:
    put(tmp_path / "host", b"hunter2\n")
    job = load(tmp_path, TREE.replace("env:HOST", "file:host"))
    assert job.convert.base_url == "https://hunter2/"
    assert job.settings["source.base_url"] == f"https://${{file:{tmp_path}/host}}/"
    text = TREE.replace("datasource: pdfs", 'datasource: pdfs, dialect: "${env:HOST}"')
    assert errors(tmp_path, text) == [
        "job.yaml:4:53: target.dialect: '${env:HOST}'; expected one of 7.x, 5.0, opensearch,"
        " elasticsearch, solr, manifoldcf"
    ]
    text = TREE.replace("path: docs", 'path: "sftp://ida:${env:HOST}@h/docs/"')
    assert errors(tmp_path, text) == [
        "job.yaml:3:29: source.path: 'sftp://ida:${env:HOST}@h/docs/': a password in a URL;"
        " expected credentials where docs/formats/files.md says, Remote trees"
    ]
    assert errors(tmp_path, TREE.replace("HOST", "NONE")) == [
        "job.yaml:3:45: source.base_url: ${env:NONE}: not set; expected a variable of the"
        " environment"
    ]


def test_a_required_key_can_be_a_variable(tmp_path: Path) -> None:
    text = TREE.replace("path: docs, ", "")
    assert load(tmp_path, text, FEEDFERRY_SOURCE_PATH="/srv '/a b'").convert.inputs == (
        "/srv",
        "/a b",
    )
    assert errors(tmp_path, text) == [
        "job.yaml:3:16: source.path: none given; expected files, folders, globs, URLs or -"
    ]


def test_the_format_of_feeds_is_detected(tmp_path: Path) -> None:
    job = load(tmp_path, PUSHED, FEEDFERRY_SOURCE_TYPE="feeds")
    assert job.convert.from_format is None
    assert job.settings["source.type"] == "feeds"


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    inputs_text = '["${env:FOLDER}/docs/", s3://bucket/docs/, /srv]'
    text = TREE.replace("docs", inputs_text) + "runs: ../runs"
    job = load(tmp_path / "jobs", text.replace("pdfs}", "pdfs, known_urls: a.txt}"), FOLDER="x")
    inputs = (f"{tmp_path}/jobs/x/docs/", "s3://bucket/docs/", "/srv")
    assert job.convert.inputs == inputs
    assert job.convert.known_urls == f"{tmp_path}/jobs/a.txt"
    assert job.home == tmp_path / "runs/pdfs"
    assert job.settings["source.path"] == ("${env:FOLDER}/docs/", *inputs[1:])


def test_a_glob_does_not_begin_in_the_name_of_the_folder(tmp_path: Path) -> None:
    job = load(tmp_path / "jobs[1]", TREE.replace("docs,", '"*.xml",'))
    assert job.convert.inputs == (f"{tmp_path}/jobs[[]1]/*.xml",)


def test_a_job_file_is_known_by_its_keys(tmp_path: Path) -> None:
    assert is_job_file(Path(put(tmp_path / "job.yaml", TREE.encode())))
    assert not is_job_file(Path(put(tmp_path / "people.yaml", b"connection: x\ntable: y\n")))
    assert not is_job_file(Path(put(tmp_path / "job.xml", TREE.encode())))
    assert not is_job_file(tmp_path / "none.yaml")
