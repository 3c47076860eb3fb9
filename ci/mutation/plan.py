"""What is mutated, and which test files may notice it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: Modules by package, as patterns below the root. The swarm (a load generator) is no part of what a host runs.
PACKAGES: dict[str, tuple[str, ...]] = {
    "orchestrator": ("installer/orchestrator/*.py",),
    "agent": (
        "installer/agent/[!s]*.py",
        "installer/agent/steps.py",
        "installer/agent/host/*.py",
        "installer/agent/checks/*.py",
    ),
    "rendezvous": (
        "installer/assisted/auth.py",
        *(
            f"installer/rendezvous/{name}.py"
            for name in (
                *(
                    "api/signing",
                    "resources/replies",
                    "states/*",
                    "store/database",
                    "store/diskidentity",
                    "store/records",
                ),
                *("validations/cluster/*", "validations/disks", "validations/hardware", "validations/host"),
                *("validations/names", "validations/network"),
            )
        ),
    ),
    "image": ("installer/image/*.py", "installer/image/iso/*.py"),
    "decide": ("installer/waitfor/decide.py",),
}


@dataclass(frozen=True)
class Project:
    """A checkout: its ``code`` (a package's folder) and the folder of the ``tests``, both below ``root``."""

    root: Path
    code: str = "installer"
    tests: str = "installer/tests"

    def modules(self, patterns: tuple[str, ...]) -> list[str]:
        """Paths below the root, sorted; empty modules are left out."""
        paths = {path for pattern in patterns for path in self.root.glob(pattern)}
        return sorted(str(path.relative_to(self.root)) for path in paths if path.read_text().strip())

    def test_files(self, targets: list[str]) -> list[str]:
        """The test files that import one of the modules, or name it in a string (``python -m``), at any distance."""
        wanted = {self._module_of(target) for target in targets}
        files = sorted((self.root / self.tests).rglob("test_*.py"))
        return [str(path.relative_to(self.root)) for path in files if wanted & self._reached(path)]

    def _module_of(self, path: str) -> str:
        return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def _reached(self, path: Path) -> set[str]:
        seen: set[str] = set()
        todo = [path]
        while todo:
            for name in _named(todo.pop(), self.code):
                if name not in seen:
                    seen.add(name)
                    place = self.root / name.replace(".", "/")
                    todo += [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]
        return seen


@cache
def _named(path: Path, code: str) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            text = node.value.replace("/", ".").removesuffix(".py")
            if text == code:
                text = f"{code}.__main__"
            if text.startswith(f"{code}."):
                names |= {text, f"{text}.__main__"}
    return frozenset(name for name in names if name.split(".")[0] == code)
