"""How a BMC's request ends early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import LabError

if TYPE_CHECKING:
    from werkzeug.wrappers import Response


class Refusal(LabError):
    """The request ends with this answer."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response
