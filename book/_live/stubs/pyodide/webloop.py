"""In place of Pyodide's event loop: figures are drawn by plain calls, so none is needed."""


def _initialize_event_loop() -> None:
    """Leave things as they are."""
