"""Columns of texts, escaped together."""

from hypothesis import given
from hypothesis import strategies as st

from feedferry.transforms.formats.fast_path.columns.cells import escaped, unescaped
from feedferry.transforms.formats.text.xml_text import IN_TEXT, escape_attribute, escape_text


@given(st.lists(st.text(alphabet="ab'é;#&<>\"\t\n\r\0")))
def test_a_column_is_escaped_as_its_texts_and_reads_back(texts: list[str]) -> None:
    column = escaped(texts)
    assert [*column] == [*map(escape_attribute, texts)]
    assert [*unescaped(column)] == texts
    assert [*escaped(texts, IN_TEXT)] == [*map(escape_text, texts)]
