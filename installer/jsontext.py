"""Reading JSON that somebody else has written: whatever is wrong with it is a ValueError."""

from __future__ import annotations

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """As json.loads, but text that is nested too deeply is a ValueError too, and each ValueError has one line."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text at byte {error.start}") from None
    except json.JSONDecodeError:
        raise
    except ValueError:
        # Python's own limit, whose text is about Python.
        raise ValueError("it has a number of too many digits") from None
