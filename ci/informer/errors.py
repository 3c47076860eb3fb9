"""What goes wrong in informers and is told in one line."""


class InformerError(Exception):
    """Bad input, or nothing to say: one line, naming file, field, value, rule."""
