"""In place of the library's html, whose tables and patterns only reading needs; figures write."""


def escape(s: str, quote: bool = True) -> str:
    """Return a text for use in HTML, as the library does."""
    s = s.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return s.replace('"', "&quot;").replace("'", "&#x27;") if quote else s
