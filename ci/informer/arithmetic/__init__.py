"""The field's own arithmetic, each formula in one function with its source; nothing here knows of files or runs."""
