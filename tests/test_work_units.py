"""How tests are spread over the workers."""

from support.runs import ROOT
from support.work_units import LONG, order, unit_of


def test_a_module_is_a_unit_and_modules_that_share_servers_are_one() -> None:
    assert unit_of("tests/test_docs.py::test_a[tests/search/b]") == "tests/test_docs.py"
    assert unit_of("tests/search/test_page.py::test_a[x::y]") == "tests/search/"
    assert unit_of("tests/search/test_kills.py::test_b") == "tests/search/"


def test_units_that_take_long_begin_first_and_then_those_with_most_tests() -> None:
    small, large, search = "tests/test_a.py", "tests/test_b.py", "tests/search/test_c.py"
    tests = [f"{small}::1", f"{large}::2", f"{large}::3", f"{search}::4", f"{small}::5"]
    tests.append(f"{large}::6")
    assert order(tests) == [3, 1, 2, 5, 0, 4]


def test_each_unit_that_takes_long_exists() -> None:
    assert [unit for unit in LONG if not (ROOT / unit).exists()] == []
