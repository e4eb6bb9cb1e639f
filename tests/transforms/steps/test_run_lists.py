"""Lists of a span: the URLs before and after steps."""

from pathlib import Path

from msgspec.structs import replace

from feedferry.schemas.record import Action, Record
from feedferry.transforms.steps import AppliedSteps
from feedferry.transforms.steps.run_lists import RunLists, UrlOrigin, read_origins
from feedferry.transforms.storage.storage import LocalStorage


def page(name: str, action: Action = Action.ADD) -> Record:
    return Record(url=f" http://www.example.com/{name}", action=action)


def test_origins_are_listed_in_order_without_urls_that_are_no_text(tmp_path: Path) -> None:
    lists = RunLists(LocalStorage(tmp_path), "span", AppliedSteps([]), has_origins=True)
    names = [f"a{number}" for number in range(700)]
    for name in names:
        broken = "\udcff" if name in ("a3", "a260") else ""
        lists.add(page(name), [replace(page(name), url=f"{name}{broken} ")])
    lists.add(page("pattern", Action.DELETE_PATTERN), [page("pattern", Action.DELETE_PATTERN)])
    lists.add(page("two"), [page("b"), page("c")])
    lists.close(whole=True)
    expected = [
        UrlOrigin(name, f"http://www.example.com/{name}")
        for name in names
        if name not in ("a3", "a260")
    ]
    two = "http://www.example.com/two"
    expected += [UrlOrigin(f"http://www.example.com/{name}", two) for name in ("b", "c")]
    assert [file.path for file in lists.written] == ["span.origins.jsonl"]
    assert list(read_origins(tmp_path, lists.written)) == expected


def test_a_list_without_a_line_is_no_file(tmp_path: Path) -> None:
    lists = RunLists(LocalStorage(tmp_path), "span", AppliedSteps([]), has_origins=True)
    lists.add(page("a"), [page("\udcff")])
    lists.close(whole=True)
    assert lists.written == []
    assert list(tmp_path.iterdir()) == []
