"""In place of Pyodide's package loader: the page brings all its modules itself."""


class _Folder:
    """A path; not text, since the other side asks for its text."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __str__(self) -> str:
        return self.path


SITE_PACKAGES = _Folder("/lib/site-packages")
DSO_DIR = _Folder("/usr/lib")
