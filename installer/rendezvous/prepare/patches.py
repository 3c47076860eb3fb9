"""Users' patches of manifests (NAME.yaml.patch, NAME.yaml.patch_SUFFIX), and files with several documents.

A patch is RFC 6902's list of operations in YAML, as upstream's yaml-patch has it: a part KEY=VALUE of a path stands for
every object below that has this text there.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from installer.assisted.errors import PrepareError
from installer.common.formats import jsontext
from installer.common.formats.yamltext import dump, load, load_all
from installer.files import write_whole

FOLDERS = ("openshift", "manifests")
# Characters that one patch may put in place, repeated values counted as often: copies of copies double with each.
MOST_PLACED = 2 << 20
Pointer = str


class Operation(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One change. Its repr shows no value: manifests hold Secrets."""

    op: Literal["add", "remove", "replace", "move", "copy", "test"]
    path: str
    source: str = msgspec.field(name="from", default="")
    value: Any = None

    def __post_init__(self) -> None:
        for pointer in (self.path, self.source) if self.op in ("move", "copy") else (self.path,):
            if not pointer.startswith("/"):
                raise ValueError("path, and from of move and copy, must begin with /")

    def __repr__(self) -> str:
        return f"Operation({self.op} {self.path})"


def operations(patch: bytes) -> list[Operation]:
    """Return the operations of a patch; an empty text has none. Raises ValueError."""
    try:
        value = load(patch)
        return msgspec.convert([] if value is None else value, list[Operation])
    except msgspec.ValidationError as error:
        raise ValueError(jsontext.in_words(error, "it")) from None


def applied(manifest: bytes, patch: bytes) -> bytes:
    """Return the manifest's first document after a patch. Raises ValueError for an operation that cannot be done."""
    document, room = load(manifest), MOST_PLACED
    for operation in operations(patch):
        pointers = list(_expanded(document, operation.path)) if "=" in operation.path else [operation.path]
        if not pointers:
            raise ValueError(f"{operation.op} {operation.path}: nothing is there")
        # The last first: what is added to or removed from a list moves what is behind it.
        for pointer in reversed(pointers):
            try:
                room -= _perform(document, operation, pointer)
            except (LookupError, TypeError, ValueError, RecursionError):
                raise ValueError(f"{operation.op} {pointer}: cannot be done, or nothing is there") from None
            if room < 0:
                raise ValueError(f"{operation.op} {pointer}: more than {MOST_PLACED >> 20} MiB would be put in place")
    try:
        return dump(document).encode()
    except RecursionError:
        raise ValueError("the manifest would be nested too deeply") from None


def _perform(document: Any, operation: Operation, pointer: Pointer) -> int:
    """Apply it, and return the size of what is put in place."""
    value = operation.value
    if operation.op in ("move", "copy"):
        owner, key = _place(document, operation.source)
        value = owner[key]
        if operation.op == "move":
            del owner[key]
    # Each place has a value of its own, which later operations change there alone.
    size, value = len(repr(value)), copy.deepcopy(value)
    owner, key = _place(document, pointer, is_new=operation.op in ("add", "move", "copy"))
    if operation.op == "test":
        if owner[key] != value:
            raise ValueError
    elif operation.op == "remove":
        del owner[key]
    elif isinstance(owner, list) and (operation.op == "add" or key == len(owner)):
        owner.insert(key, value)
    else:
        if operation.op == "replace":
            owner[key]
        owner[key] = value
    return size


def _place(document: Any, pointer: Pointer, is_new: bool = False) -> tuple[Any, Any]:
    """(object or list, key or index) that a pointer names. `is_new`: the index behind a list's end counts too."""
    owner = document
    *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    for part in parents:
        owner = owner[_key(owner, part)]
    key = _key(owner, last, is_new)
    return owner, key


def _key(owner: Any, part: str, is_new: bool = False) -> str | int:
    if isinstance(owner, dict):
        return part
    if not isinstance(owner, list):
        raise TypeError
    end = len(owner) + is_new
    index = end - 1 if is_new and part == "-" else int(part) if part.isdecimal() else -1
    if not 0 <= index < end:
        raise LookupError
    return index


def _expanded(document: Any, pointer: Pointer) -> Iterator[Pointer]:
    """Yield the plain pointers that a pointer with KEY=VALUE stands for."""
    routes = [("", document)]
    *parents, last = pointer.split("/")[1:]
    for part in parents:
        routes = [match for route, owner in routes for match in _found(route, owner, part)]
    for route, owner in routes:
        if "=" in last:
            yield from (match for match, _ in _found(route, owner, last))
        else:
            yield f"{route}/{last}"


def _found(route: Pointer, owner: Any, part: str) -> Iterator[tuple[Pointer, Any]]:
    name, equals, wanted = part.partition("=")
    if not equals:
        try:
            yield f"{route}/{part}", owner[_key(owner, part.replace("~1", "/").replace("~0", "~"))]
        except (LookupError, TypeError):
            return
    elif isinstance(owner, dict) and owner.get(name) == wanted:
        yield route, owner
    elif isinstance(owner, dict | list):
        pairs = owner.items() if isinstance(owner, dict) else enumerate(owner)
        for key, child in pairs:
            yield from _found(f"{route}/{str(key).replace('~', '~0').replace('/', '~1')}", child, part)


def split(files: Iterable[Path], mark: str) -> None:
    """Make one file of each document where a file has several: NAME-MARK-00.yaml and so on."""
    for file in files:
        is_yaml = file.suffix in (".yaml", ".yml")
        documents = [item for item in load_all(file.read_bytes()) if item is not None] if is_yaml else []
        if len(documents) > 1:
            for number, document in enumerate(documents):
                part = file.with_name(f"{file.stem}-{mark}-{number:02d}{file.suffix}")
                write_whole(part, dump(document).encode())
            file.unlink()


def apply(work: Path) -> None:
    """Apply and remove all patches below a folder of manifests, in the order of their names. Raises PrepareError."""
    for patch in [path for folder in FOLDERS for path in sorted((work / folder).glob("*.patch*"))]:
        if not patch.suffix.startswith(".patch"):
            continue
        targets = [work / folder / patch.stem for folder in FOLDERS]
        target = next((path for path in targets if path.is_file()), None)
        if target is None:
            raise PrepareError(f"manifest {patch.name}", f"there is no manifest {patch.stem} that it could change")
        try:
            content = applied(target.read_bytes(), patch.read_bytes())
        except ValueError as error:
            raise PrepareError(f"manifest {patch.name}", str(error)) from None
        write_whole(target, content)
        patch.unlink()
