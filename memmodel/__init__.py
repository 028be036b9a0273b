"""memmodel: how much memory each GPU holds when a large model is trained, and why."""

__version__ = "0.1.0"
