"""Files of a run in object storage are where its mirror has none."""

from pathlib import Path

import pytest

from feedferry.schemas.account import SpanFile
from feedferry.transforms.storage.run_folders.attempts import digest_of
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from feedferry.transforms.storage.run_folders.mirrors import changed_files, mirroring
from support import remotes
from support.object_faults import Request, faulty_proxy

URI = f"s3://{remotes.BUCKET}/run"
TEXT = b"text"


def _files(folder: Path) -> list[SpanFile]:
    path = folder / "same"
    path.write_bytes(TEXT)
    names = ("chunks/same", "chunks/longer", "chunks/gone")
    digest = digest_of(path)
    return [SpanFile(path=name, bytes=len(TEXT), sha256=digest, modified_ns=0) for name in names]


@pytest.mark.parametrize("verify", [False, True])
def test_changed_files_are_found_by_one_list_of_the_objects(tmp_path: Path, verify: bool) -> None:
    folder = tmp_path / "mirror"
    folder.mkdir()
    asked: list[str] = []

    def note(request: Request) -> str:
        asked.append(f"{request.command} {request.path}")
        return "pass"

    with remotes.s3_server() as client:
        storage = storage_of(URI)
        storage.put("chunks/same", TEXT)
        storage.put("chunks/longer", TEXT * 2)
        with faulty_proxy(client.meta.endpoint_url) as proxy, mirroring(folder, storage):
            proxy.fault = note
            files = _files(tmp_path)
            changed = [*changed_files(folder, files, verify=verify, may_be_gone=False)]
            assert changed == ["chunks/longer", "chunks/gone"]
            [listed] = asked
            assert "list-type=2" in listed
            asked.clear()
            left = [*changed_files(folder, files, verify=verify, may_be_gone=True)]
            assert left == ["chunks/longer"]
            assert len(asked) == 2  # and one that reads the longer file


def test_changed_files_of_a_folder_are_read_if_they_are_to_be_verified(tmp_path: Path) -> None:
    files = _files(tmp_path)
    (tmp_path / "chunks").mkdir()
    (tmp_path / "chunks/same").write_bytes(TEXT)
    (tmp_path / "chunks/longer").write_bytes(TEXT[::-1])
    for verify, changed in ((False, []), (True, ["chunks/longer"])):
        assert changed == [*changed_files(tmp_path, files, verify=verify, may_be_gone=True)]
