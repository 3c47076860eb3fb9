"""Reading JSON that somebody else has written: whatever is wrong with it is a ValueError."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def loads(text: str | bytes, **hooks: Callable[[Any], Any]) -> Any:
    """As json.loads, but text that is nested too deeply is a ValueError too, and each ValueError has one line.

    `hooks` are those of json.loads; a ValueError of theirs comes out as it is.
    """
    try:
        return json.loads(text, **hooks)  # type: ignore[arg-type]
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 text at byte {error.start}") from None
    except json.JSONDecodeError:
        raise
    except ValueError:
        if hooks:
            raise
        # Python's own limit, whose message is about Python and not about the file.
        raise ValueError("it has a number of too many digits") from None
