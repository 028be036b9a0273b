"""In place of asyncio, which the interpreter's start names but no figure uses."""


def get_event_loop() -> None:
    """Refuse: there is none."""
    raise RuntimeError("there is no event loop in the page's Python")
