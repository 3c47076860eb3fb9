"""The release that is installed and the installer that installs it, as data; whose they are makes no difference."""

from lab.subject.model import Mirror, Subject

__all__ = ["Mirror", "Subject"]
