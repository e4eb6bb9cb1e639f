"""The job of the flags of `convert`, and its settings as a job file."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.job.file.flag_job import job_of_flags
from feedferry.pipelines.job.file.job_file import load_job
from feedferry.pipelines.job.file.job_text import render
from feedferry.pipelines.job.run import engine
from feedferry.transforms.storage.atomic import write_whole
from support.archives import documents, gsa_feed, put

WORDS: dict[str, object] = {
    "inputs": ("a.xml", "b*.xml"),
    "output": "out of [today]",
    "to_format": "thunderstone",
    "from_format": "gsa-feed",
    "zone": "Europe/Berlin",
    "accept_loss": "acl,authmethod",
    "fields": ("Author=author",),
    "known_urls": "urls.txt",
    "max_rejects": "0.5%",
    "allow_wide_deletes": True,
}


def test_the_rendered_settings_are_a_job_file_with_the_same_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    job = job_of_flags(WORDS)
    Path("folder").mkdir()
    path = Path("folder/config.rendered.yaml")
    path.write_text(render(job))
    loaded = load_job(path, {}, {})
    inputs = (str(tmp_path / "a.xml"), str(tmp_path / "b*.xml"))
    known_urls = str(tmp_path / "urls.txt")
    expected = replace(job.convert, inputs=inputs, known_urls=known_urls)
    assert loaded.name == "out-of--today-"
    assert loaded.convert.kept_acls == str(loaded.home / "state.acls")
    assert replace(loaded.convert, output=job.convert.output, kept_acls=None) == expected


def test_a_text_of_digits_stays_a_text() -> None:
    tree = {"from_format": "files", "base_url": "https://docs.example.org/", "acl": "posix"}
    words = {"inputs": ("docs",), "output": "out", "to_format": "avro", "acl_namespace": "1000"}
    text = render(job_of_flags({**words, **tree}))
    assert '  acl_namespace: "1000" ' in text
    assert "  max_content_bytes: 20MiB " in text


def test_a_token_in_a_url_is_not_rendered() -> None:
    url = "https://files.example.com/feed.xml?token=s3same"
    text = render(job_of_flags({**WORDS, "inputs": (url,)}))
    assert "s3same" not in text
    assert 'path: ["***"]' in text


def test_the_path_of_a_secret_does_not_depend_on_the_working_folder(here: Path) -> None:
    put(here / "key", b"s3same")
    words = {**WORDS, "to_format": "gsa-feed", "url": "http://127.0.0.1:9", "accept_loss": None}
    words |= {"fields": (), "known_urls": None, "auth": "bearer=${file:key}"}
    text = render(job_of_flags(words))
    assert f'  auth: {{bearer: "${{file:{here}/key}}"}} ' in text


def test_the_origin_of_a_value_is_its_flag() -> None:
    lines = render(job_of_flags(WORDS)).splitlines()
    origins = {line.split()[0]: line.rpartition("# ")[2] for line in lines if "# " in line}
    assert (origins["zone:"], origins["path:"]) == ("flag --zone", "argument")


@pytest.mark.slow
def test_a_run_that_ended_when_its_settings_were_written_goes_on(here: Path) -> None:
    put(here / "feed.xml", gsa_feed(*documents(1, 2)))
    words = ["convert", "feed.xml", "-o", "out", "--to", "jsonl", "-q", "--progress", "none"]

    def write_and_end(path: Path, data: bytes) -> None:
        write_whole(path, data)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "write_whole", write_and_end)
        assert main(words) == 130
    assert main(words) == 0
