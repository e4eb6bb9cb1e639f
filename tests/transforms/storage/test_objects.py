"""Object storage: a run needs few operations, and each is as sure as in a folder."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from feedferry.schemas.errors import ConfigError, FatalError
from feedferry.transforms.storage.objects.object_storage import ObjectStorage
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from feedferry.transforms.storage.storage import LocalStorage, Storage
from support import remotes

pytestmark = pytest.mark.slow


@pytest.fixture
def moto() -> Iterator[None]:
    """Another server, which makes no bucket by an upload."""
    with remotes.s3_server():
        yield


@pytest.fixture(params=["folder", "moto", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    if request.param == "folder":
        yield LocalStorage(tmp_path)
    else:
        request.getfixturevalue(request.param)
        yield storage_of(f"s3://{remotes.BUCKET}/run")


def test_of_two_writers_the_first_wins(storage: Storage) -> None:
    assert storage.put_if_absent("a.json", b"1")
    assert not storage.put_if_absent("a.json", b"2")

    assert storage.get("a.json") == b"1"
    assert storage.sizes() == {"a.json": 1}


def test_a_file_appears_when_it_is_whole(storage: Storage) -> None:
    with storage.hold("span"):
        file = storage.open_whole("span/a.xml")
        file.write(b"x" * (9 << 20))
        assert storage.get("span/a.xml") is None
        file.write(memoryview(b"y"))
        file.close(whole=True)

    assert storage.sizes("span") == {"span/a.xml": (9 << 20) + 1}
    with storage.below("span").open("a.xml") as stream:
        stream.seek(-2, 2)
        assert stream.read() == b"xy"


def test_nothing_is_left_of_a_file_that_was_given_up(storage: Storage) -> None:
    file = storage.open_whole("a.xml")
    file.write(b"x" * (9 << 20))
    file.close(whole=False)

    assert storage.get("a.xml") is None
    assert storage.sizes() == {}


def test_a_folder_is_removed_with_all_that_is_in_it(storage: Storage) -> None:
    with storage.hold("span/1"):
        storage.put("span/1/a", b"")
    storage.put("spans", b"")
    storage.remove("span/1")
    storage.remove("none")

    assert storage.sizes() == {"spans": 0}


def test_a_version_is_replaced_once(s3: None) -> None:
    storage = ObjectStorage.of(f"s3://{remotes.BUCKET}/run")
    assert storage.version("lease") is None
    storage.put("lease", b"1")
    first = storage.version("lease")
    assert first is not None

    assert storage.replace_if("lease", b"2", first) is not None
    assert storage.replace_if("lease", b"3", first) is None
    assert storage.get("lease") == b"2"


def test_an_upload_to_a_bucket_that_is_not_there_names_the_object_once(moto: None) -> None:
    file = storage_of("s3://absent/run").open_whole("a.xml")
    with pytest.raises(FatalError) as raised:
        file.close(whole=True)
    assert str(raised.value).startswith("s3://absent/run/a.xml: ")


def test_a_bucket_that_is_not_there_is_fatal(moto: None) -> None:
    with pytest.raises(FatalError, match=r"^s3://none/run/a: .*; expected a bucket that exists$"):
        storage_of("s3://none/run").put("a", b"")


def test_a_file_that_cannot_be_stored_is_named_once(moto: None) -> None:
    file = storage_of("s3://none/run").open_whole("span/a.xml")
    with pytest.raises(FatalError, match=r"^s3://none/run/span/a\.xml: "):
        file.close(whole=True)


def test_the_server_tells_when_a_file_was_written(storage: Storage) -> None:
    begin = time.time()
    storage.put("a", b"")
    assert begin - 2 < storage.written_at("a") < time.time() + 2


@pytest.mark.parametrize("uri", ["sftp://host/run", "s3://user:pass@bucket/run", "hdfs://host/run"])
def test_a_uri_that_cannot_be_written_to_is_refused_without_its_secrets(uri: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^[a-z0-9]+://…: cannot be written to; expected "
    ) as caught:
        storage_of(uri)
    assert "pass" not in str(caught.value)
