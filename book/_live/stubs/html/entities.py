"""In place of the names of all characters, which only reading HTML needs; figures write it."""

html5: dict[str, str] = {}
