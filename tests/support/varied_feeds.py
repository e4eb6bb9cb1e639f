"""GSA feeds whose records differ in all that real feeds differ in."""


def feed(records: str, *, feedtype: str = "metadata-and-url", mark: str = "") -> bytes:
    """Return a feed with the given records."""
    header = f"<header><datasource>d</datasource><feedtype>{feedtype}</feedtype></header>"
    text = f"{mark}<gsafeed>\n{header}\n<group>\n{records}</group>\n</gsafeed>\n"
    return text.encode("utf-8", "surrogatepass")
