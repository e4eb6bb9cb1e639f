"""The codes of elements: one letter for each of a record, in the order of its elements."""

RECORD, RECORD_WITH_CONTENT, DELETION, CLOSED_RECORD = "R", "S", "Q", "E"
PARENTED_ACL, ACL, END_ACL = "A", "B", "a"
PERMIT, DENY = "P", "D"
METADATA, META, END_METADATA = "M", "m", "n"
CONTENT, END_CONTENT = "C", "c"
END_NAME, END_RECORD = "p", "r"
LOST = "-"
"""The code of an element that a target cannot hold, in the form of a writer."""

LOST_FIELDS = {ACL: "acl", PERMIT: "acl", META: "metadata", CONTENT: "content"}
"""The one field that is lost with such an element, by its code in the output of a writer."""

ALONE, CLOSED_ALONE = "X", "Y"
"""The codes of elements; those of an element that is not known, or whose values are not neutral."""

RECORDS = (RECORD, RECORD_WITH_CONTENT, DELETION, CLOSED_RECORD)
WRITTEN_CODES = {
    **dict.fromkeys(RECORDS, RECORD),
    **dict.fromkeys((PARENTED_ACL, ACL), ACL),
    **dict.fromkeys((PERMIT, DENY), PERMIT),
    META: META,
    CONTENT: CONTENT,
}
"""The codes of elements with values in the output of a writer, by their own codes."""

CONTENT_MARK = "\3"
"""Is in place of a content in the text of a block; no text of XML has it."""
