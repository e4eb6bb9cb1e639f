"""The tests of a source, made from its kit: real conversions of a few documents."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from feedferry.pipelines.python_api import convert, read
from feedferry.schemas.errors import FatalError, SourceError
from feedferry.schemas.record import Action, Content, Record
from feedferry.schemas.span import Span
from feedferry.testing.source_kit import SourceKit
from feedferry.transforms.formats import ReadOptions, ReadResult
from feedferry.transforms.sources import SOURCES, SourceOptions, SourceRun, SpanRequest

DOCUMENTS = {f"page{number}": f"the text of {number}" for number in range(9)}
_CHANGED = {**DOCUMENTS, "page3": "another text, and longer", "page9": "the text of 9"}
del _CHANGED["page5"]
Document = tuple[Action, bytes | None]


class SourceTests:
    """All tests of a source."""

    kits: ClassVar[Sequence[SourceKit]]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "kit" in metafunc.fixturenames:
            has_nights = "nights" in metafunc.function.__name__
            kits = [kit for kit in self.kits if kit.source.has_state or not has_nights]
            metafunc.parametrize("kit", kits, ids=[kit.name for kit in kits])

    @pytest.fixture(autouse=True)
    def _registered(self) -> Iterator[None]:
        """Let the registry know sources of packages that are not installed."""
        sources = [kit.source for kit in self.kits]
        with SOURCES.registered(*(each for each in sources if SOURCES.find(each.name) is None)):
            yield

    def test_each_document_is_read_once_under_its_url(self, kit: SourceKit, tmp_path: Path) -> None:
        _convert(kit, kit.fill(tmp_path, DOCUMENTS), tmp_path / "out")
        records = _records(tmp_path / "out")
        assert len(records) == len(DOCUMENTS)
        assert _documents(records) == {
            kit.url_of(name): (Action.ADD, text.encode()) for name, text in DOCUMENTS.items()
        }

    def test_spans_are_read_as_the_whole(self, kit: SourceKit, tmp_path: Path) -> None:
        name = kit.fill(tmp_path, DOCUMENTS)
        _convert(kit, name, tmp_path / "whole")
        _convert(kit, name, tmp_path / "cut", span_bytes=1)
        assert _texts(_records(tmp_path / "cut")) == _texts(_records(tmp_path / "whole"))

    def test_a_span_can_be_sent_to_a_worker(self, kit: SourceKit, tmp_path: Path) -> None:
        """Spans in JSON, read alone and in any order, have the documents of the source."""
        whole = Span(source="f", path=kit.fill(tmp_path, DOCUMENTS), format=kit.name)
        options = SourceOptions(to_format="jsonl", span_bytes=1, **_of_source(kit))
        config = kit.source.load(whole, options)
        run = SourceRun(
            span=whole, config=config, work=tmp_path, reading=ReadOptions(), options=options
        )
        spans = list(kit.source.split(run))
        assert [span.ordinal for span in spans] == sorted({span.ordinal for span in spans})
        records = []
        for span in reversed(spans):
            sent = msgspec.json.decode(msgspec.json.encode(span), type=Span)
            with closing(kit.source.read(SpanRequest(span=sent, config=config))) as results:
                records += [each for each in results if isinstance(each, Record)]
        assert {*_documents(records)} == {kit.url_of(name) for name in DOCUMENTS}

    def test_a_conversion_that_fails_is_resumed(
        self, kit: SourceKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = kit.fill(tmp_path, DOCUMENTS)
        _convert(kit, name, tmp_path / "whole", span_bytes=1)
        with monkeypatch.context() as patch:
            patch.setattr(type(kit.source), "read", _failing(kit))
            with pytest.raises(FatalError, match="gone"):
                _convert(kit, name, tmp_path / "out", span_bytes=1)
            assert not (tmp_path / "out" / "report.json").exists()
        _convert(kit, name, tmp_path / "out", span_bytes=1)
        assert _texts(_records(tmp_path / "out")) == _texts(_records(tmp_path / "whole"))

    def test_later_nights_send_what_changed(self, kit: SourceKit, tmp_path: Path) -> None:
        nights = [DOCUMENTS, _CHANGED, _CHANGED, DOCUMENTS]
        sent = []
        for number, documents in enumerate(nights):
            name = kit.fill(tmp_path, documents)
            state, out = tmp_path / "state", tmp_path / f"out{number}"
            _convert(kit, name, out, state=state, max_delete_percent="100%")
            sent.append(_documents(_records(tmp_path / f"out{number}")))
        page = {name: kit.url_of(name) for name in (*DOCUMENTS, "page9")}
        assert {*sent[0]} == {page[name] for name in DOCUMENTS}
        assert sent[1] == {
            page["page3"]: (Action.ADD, _CHANGED["page3"].encode()),
            page["page5"]: (Action.DELETE, None),
            page["page9"]: (Action.ADD, b"the text of 9"),
        }
        assert sent[2] == {}
        assert sent[3] == {
            page["page3"]: (Action.ADD, b"the text of 3"),
            page["page5"]: (Action.ADD, b"the text of 5"),
            page["page9"]: (Action.DELETE, None),
        }


def _convert(kit: SourceKit, name: str, output: Path, **more: object) -> None:
    settings: dict[str, Any] = {"from_format": kit.name, **kit.settings, **more}
    assert convert(name, output, to_format="jsonl", **settings).exit_code == 0


def _of_source(kit: SourceKit) -> dict[str, Any]:
    return {
        key: kit.settings[key] for key in SourceOptions.__struct_fields__ if key in kit.settings
    }


def _failing(kit: SourceKit) -> Any:  # a method in place of that of the source
    """Return `read` of the source, which fails in the span of the last document."""
    read_span = type(kit.source).read
    last = kit.url_of([*DOCUMENTS][-1])

    def fail(source: Any, request: SpanRequest[Any]) -> Generator[ReadResult, None, None]:
        plain = msgspec.structs.replace(request.options, batch_records=0)
        for result in read_span(source, msgspec.structs.replace(request, options=plain)):
            if isinstance(result, Record) and result.url == last:
                raise SourceError("the source is gone")
            yield result

    return fail


def _records(folder: Path) -> list[Record]:
    files = sorted((folder / "chunks").glob("*")) if (folder / "chunks").exists() else []
    return [each for each in read(files) if isinstance(each, Record)] if files else []


def _documents(records: Sequence[Record]) -> dict[str, Document]:
    return {record.url: (record.action, _text(record.content)) for record in records}


def _texts(records: Sequence[Record]) -> list[tuple[str, bytes | None]]:
    return [(record.url, _text(record.content)) for record in records]


def _text(content: Content | None) -> bytes | None:
    return None if content is None else content.data
