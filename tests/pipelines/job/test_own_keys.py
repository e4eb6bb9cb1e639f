"""The keys of a job that formats and appliances declare: their values, errors and flags."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.job.file.flag_job import job_of_flags
from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.job.file.job_file import load_job
from feedferry.pipelines.job.file.job_keys import job_keys
from feedferry.pipelines.job.file.job_text import json_schema, render
from feedferry.pipelines.options.own_options import own_flags
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.own_key import OwnKey
from feedferry.transforms.formats import FORMATS
from feedferry.transforms.formats.base import Format, Holds
from feedferry.transforms.sinks.push.wire.opensearch.index_options import IndexOptions
from support.archives import put

HEAD = "version: 1\njob: intranet\nsource: {type: gsa-feed, path: a.xml}\n"
TARGET = """\
target:
  type: opensearch
  url: http://127.0.0.1:9200
  index: intranet
  pipeline: attachment
  keep_indices: 3
  mapping: fields.yaml
  fields: {author: "metadata:Author"}
"""
PLAIN_TARGET = "target: {type: opensearch, url: 'http://127.0.0.1:9200/intranet', datasource: a}\n"
FIELDS = b"properties: {author: {type: text}, attachment: {properties: {content: {type: text}}}}\n"


def load(folder: Path, target: str = TARGET, *overrides: str) -> Job:
    put(folder / "fields.yaml", FIELDS)
    path = folder / "job.yaml"
    put(path, (HEAD + target).encode())
    return load_job(path, {"overrides": overrides}, {})


def error(folder: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, TARGET, *overrides)
    return str(caught.value).replace(f"{folder}/", "")


def options_of(job: Job) -> IndexOptions:
    assert job.push is not None
    return job.push.appliance.of(IndexOptions)


def test_the_mapping_of_a_database_is_not_that_of_the_index(tmp_path: Path) -> None:
    put(tmp_path / "people.yaml", b"{connection: 'sqlite:///a.db', table: a, url: 'http://a/{id}'}")
    put(tmp_path / "fields.yaml", FIELDS)
    source = "source: {type: database, mapping: people.yaml}\n"
    for target, expected in ((TARGET, f"{tmp_path}/fields.yaml"), (PLAIN_TARGET, None)):
        path = tmp_path / "job.yaml"
        put(path, ("version: 1\njob: people\n" + source + target).encode())
        job = load_job(path, {}, {})
        assert job.convert.mapping == f"{tmp_path}/people.yaml"
        assert options_of(job).mapping == expected


def test_a_target_has_the_options_of_its_keys(tmp_path: Path) -> None:
    job = load(tmp_path)
    assert job.push is not None
    assert job.push.appliance.url == "http://127.0.0.1:9200/intranet"
    options = options_of(job)
    assert (options.keep_indices, options.mapping) == (3, str(tmp_path / "fields.yaml"))
    assert options.read_fields() == {
        "author": {"type": "text"},
        "attachment": {"properties": {"content": {"type": "text"}}},
    }
    assert job.convert.own["pipeline"] == "attachment"
    assert job.convert.fields == (("Author", "author"),)


def test_an_address_may_state_the_index(tmp_path: Path) -> None:
    job = load(tmp_path, "target: {type: opensearch, url: 'http://127.0.0.1:9200/intranet'}\n")
    assert job.push is not None
    assert job.push.appliance.url == "http://127.0.0.1:9200/intranet"
    assert options_of(job) == IndexOptions(keep_indices=1)


def test_a_dialect_that_is_stated_is_not_asked_for(tmp_path: Path) -> None:
    assert options_of(load(tmp_path)).flat_kinds == ("flat_object", "flattened")
    stated = load(tmp_path, TARGET, "target.dialect=elasticsearch")
    assert options_of(stated).flat_kinds == ("flattened",)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("target.keep_indices=many", "target.keep_indices: 'many'; expected a number of indexes"),
        ("target.pipeline=", "target.pipeline: an empty text; expected a value"),
        ("target.dialect=5.0", "expected one of 7.x, 5.0, opensearch, elasticsearch, solr,"),
        ("target.fields={title: Author}", "title: 'Author'; expected metadata:NAME"),
        (
            "target.fields={title: metadata:Author}",
            "target.fields: 'title': a field that feedferry has; expected another name",
        ),
        ("target.mapping=none.yaml", "none.yaml: No such file or directory; expected a file that"),
        (
            "target.index=a/b",
            "'http://127.0.0.1:9200/a/b': path '/a/b'; expected http://HOST[:19900]",
        ),
    ],
)
def test_a_wrong_value_of_a_key_is_an_error(tmp_path: Path, override: str, message: str) -> None:
    assert message in error(tmp_path, override)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ("{acl_1_permit_1: {type: text}}", "'acl_1_permit_1': a field that feedferry has"),
        ("{acl_1_deny_1.a: {type: text}}", "'acl_1_deny_1.a': a field that feedferry has"),
        ("{body: {type: keyword}}", "'body': a field that feedferry has"),
        ("{_id: {type: keyword}}", "'_id'; expected a name that does not begin with _"),
        (
            "{a: {properties: {b: {type: text, copy_to: [c, acl_1_permit_1]}}}}",
            "'b' is copied to 'acl_1_permit_1', a field that feedferry has",
        ),
    ],
)
def test_a_mapping_changes_no_field_of_ours(tmp_path: Path, properties: str, message: str) -> None:
    put(tmp_path / "own.yaml", f"properties: {properties}\n".encode())
    assert f"own.yaml: {message}" in error(tmp_path, "target.mapping=own.yaml")


def test_a_conversion_without_a_job_file_takes_the_same_keys(here: Path) -> None:
    words = {"inputs": ("a.xml",), "output": "out", "to_format": "opensearch"}
    push = {**words, "url": "http://127.0.0.1:9200"}
    stated = ("target.index=intranet", "target.keep_indices=3", "rejects.withhold=false")
    job = job_of_flags({**push, "overrides": stated})
    assert job.push is not None
    assert job.push.appliance.url == "http://127.0.0.1:9200/intranet"
    assert (options_of(job).keep_indices, job.push.withhold, job.convert.withhold) == (
        *(3, False, False),
    )
    assert job.settings["target.keep_indices"] == "3"
    assert load_again(job, here).push == job.push


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ("target.keep_indices=x", "--set: target.keep_indices: 'x'; expected a number of indexes"),
        ("target.mapping=none.yaml", "--set target.mapping /"),
        ("target.mapping=none.yaml", "/none.yaml: No such file or directory; expected a file"),
    ],
)
def test_a_push_of_a_run_takes_the_same_keys(
    stated: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", "out", "--to", "http://127.0.0.1:9200/intranet", "--set", stated]) == 2
    assert message in capsys.readouterr().err


def load_again(job: Job, folder: Path) -> Job:
    """Load the settings of a run, as the replay of its rejects does."""
    put(folder / "config.yaml", render(job).encode())
    return load_job(folder / "config.yaml", {}, {})


def test_another_target_does_not_have_the_key(here: Path) -> None:
    words = {"inputs": ("a.xml",), "output": "out", "to_format": "gsa-feed"}
    with pytest.raises(ConfigError, match="'index'; not for --to gsa-feed, but for opensearch"):
        job_of_flags({**words, "overrides": ("target.index=intranet",)})


class ToyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the format of this module."""

    colour: Annotated[str | None, OwnKey(help="Colour.", choices=("red", "blue"))] = None
    is_fast: Annotated[bool, OwnKey(help="Be fast.")] = False


@pytest.fixture
def toy() -> Iterator[None]:
    format_ = Format(
        name="toy",
        title="a toy",
        holds=Holds(),
        encoder=lambda _options: pytest.fail("no record is written"),
        options=(ToyOptions,),
    )
    caches = (own_flags, job_keys)
    for cached in caches:
        cached.cache_clear()
    with FORMATS.registered(format_):
        yield
    for cached in caches:
        cached.cache_clear()


@pytest.mark.usefixtures("toy")
def test_a_format_of_another_package_declares_keys(tmp_path: Path) -> None:
    job = load(tmp_path, "target: {type: toy, colour: red, is_fast: true}\n")
    assert job.convert.own == {"colour": "red", "is_fast": True}
    with pytest.raises(ConfigError, match=r"target\.colour: 'green'; expected one of red, blue"):
        load(tmp_path, "target: {type: toy, colour: green}\n")
    choices = json_schema()["properties"]["target"]["oneOf"]  # type: ignore[index]
    [schema] = [each for each in choices if each["properties"]["type"] == {"const": "toy"}]
    assert schema["properties"]["colour"] == {"description": "Colour.", "enum": ["red", "blue"]}
