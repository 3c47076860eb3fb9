"""The commands of `node0 iso`. Only their results go to standard output."""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from installer.common.formats import jsontext
from installer.common.inputs import open_input, read_input, read_stream
from installer.common.iso9660 import Iso
from installer.common.kargareas import current_kargs, kargs_area
from installer.errors import ConfigError, IsoError, NoEmbedArea
from installer.files import is_stream
from installer.image.iso.embed import embedded_ignition, ignition_area, set_kargs_patches
from installer.image.iso.grow import embed_ignition, growth, reset_image
from installer.image.iso.overlay import Overlay

log = logging.getLogger(__name__)

STDOUT = "-"


@contextlib.contextmanager
def open_image(name: str) -> Iterator[Overlay]:
    """Provide the image as an overlay. Raises IsoError where it cannot be opened."""
    try:
        file = open_input(name, allowed=(stat.S_IFBLK,))
    except OSError as error:
        raise IsoError(name, f"cannot be opened: {error.strerror or error}") from error
    with file:
        if not file.seekable():
            raise IsoError(name, "must be a file, not a stream")
        yield Overlay(file)


def finish(overlay: Overlay, iso: str, output: str | None) -> None:
    """Write the changed image to where the user wants it."""
    if output == STDOUT:
        if sys.stdout.isatty():
            raise IsoError(iso, "an image is not written to a terminal: redirect standard output")
        sys.stdout.flush()
        try:
            overlay.stream(sys.stdout.fileno())
        except BrokenPipeError:
            raise
        except OSError as error:
            raise IsoError(iso, f"cannot write to standard output: {error.strerror or error}") from error
    elif output is None or (os.path.exists(output) and os.path.samefile(output, iso)):
        overlay.save_in_place(Path(iso))
    else:
        how = overlay.save(Path(output))
        log.debug("%s copied by %s", iso, how)


def _summary(iso: Iso, overlay: Overlay) -> dict[str, Any]:
    summary: dict[str, Any] = {"volumeID": iso.volume_id, "size": iso.size}
    try:
        area = ignition_area(iso)
    except NoEmbedArea:
        summary["ignition"] = None
    else:
        config = embedded_ignition(iso)
        summary["ignition"] = {
            "file": area.name,
            "offset": area.offset,
            "length": area.length,
            "used": len(iso.read(area.offset, area.length).rstrip(b"\0")),
            "config": None if config is None else len(config),
        }
    kargs = kargs_area(iso)
    summary["kargs"] = kargs and {
        "areas": [{"offset": extent.offset, "length": extent.length} for extent in kargs.areas],
        "default": kargs.default,
        "current": current_kargs(iso, kargs),
    }
    features = iso.file("coreos/features.json")
    if features is not None:
        with contextlib.suppress(ValueError):
            summary["features"] = jsontext.loads(features)
    grew = growth(overlay, iso.path)
    summary["grown"] = grew.area
    summary["initrdAdded"] = grew.initrd
    return summary


def _print_summary(summary: dict[str, Any]) -> None:
    _say(f"volume id:  {summary['volumeID']}")
    _say(f"size:       {summary['size']} bytes")
    area = summary["ignition"]
    if area is None:
        _say("ignition:   no embed area")
    else:
        held = "empty" if area["config"] is None else f"a config of {area['config']} bytes ({area['used']} packed)"
        grown = ", grown" if summary["grown"] else ""
        _say(f"ignition:   {held}")
        _say(f"  area:     {area['length']} bytes at {area['offset']}{grown}")
    if summary["initrdAdded"]:
        _say(f"initrd:     {summary['initrdAdded']} bytes added")
    kargs = summary["kargs"]
    if kargs is None:
        _say("kargs:      no areas")
    else:
        _say(f"kargs:      {kargs['current']}")
        if kargs["current"] != kargs["default"]:
            _say(f"  default:  {kargs['default']}")
        for place in kargs["areas"]:
            _say(f"  area:     {place['length']} bytes at {place['offset']}")
    features = summary.get("features")
    if isinstance(features, dict) and any(features.values()):
        _say(f"features:   {', '.join(sorted(name for name, value in features.items() if value))}")


def show(args: argparse.Namespace) -> int:
    """Print what an image carries."""
    with open_image(args.iso) as overlay:
        iso = overlay.iso(args.iso)
        if args.ignition:
            config = embedded_ignition(iso)
            if config is None:
                raise IsoError(args.iso, "carries no Ignition config")
            sys.stdout.buffer.write(config)
            return 0
        summary = _summary(iso, overlay)
        if args.json:
            print(json.dumps(summary, indent=2))
        else:
            _print_summary(summary)
    return 0


def _config(name: str) -> bytes:
    try:
        content = read_stream(sys.stdin.buffer) if name == "-" else read_input(name)
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror or error}", file=name) from error
    try:
        version = jsontext.loads(content)["ignition"]["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{name}: is not an Ignition config: it has no ignition.version", file=name) from error
    if not str(version).startswith(("2.", "3.")):
        raise ConfigError(f"{name}: ignition.version {version!r} is not known", file=name)
    return content


def embed(args: argparse.Namespace) -> int:
    """Embed an Ignition config."""
    config = _config(args.ignition)
    with open_image(args.iso) as overlay:
        if not args.force and embedded_ignition(overlay.iso(args.iso)) is not None:
            raise IsoError(args.iso, "carries an Ignition config already: use --force to replace it")
        if embed_ignition(overlay, args.iso, config):
            log.debug("Ignition content exceeds the embed area of %s, the image grows", args.iso)
        finish(overlay, args.iso, args.output)
    return 0


def reset(args: argparse.Namespace) -> int:
    """Restore the image to what it was before anything was embedded."""
    with open_image(args.iso) as overlay:
        reset_image(overlay, args.iso)
        finish(overlay, args.iso, args.output)
    return 0


def kargs(args: argparse.Namespace) -> int:
    """Print the kernel arguments, or change them."""
    with open_image(args.iso) as overlay:
        iso = overlay.iso(args.iso)
        area = kargs_area(iso)
        if area is None:
            raise NoEmbedArea(args.iso, "no kernel argument areas")
        words = (area.default if args.default else current_kargs(iso, area)).split()
        if not (args.append or args.delete or (args.default and args.output)):
            _say(" ".join(words))
            return 0
        for word in args.delete:
            if word not in words:
                raise IsoError(args.iso, f"kernel argument {word} is not there")
            words.remove(word)
        text = " ".join([*words, *args.append])
        if not text.isascii() or "\n" in text:
            raise IsoError(args.iso, "kernel arguments must be ASCII text of one line")
        overlay.apply(set_kargs_patches(iso, area, text))
        finish(overlay, args.iso, args.output)
    return 0


def _check_outputs(iso: Path | str, outputs: dict[str, Path | str | None]) -> None:
    """Raise IsoError for an output that would take the place of the image that is read, or of another output."""
    options: dict[str, str] = {}
    for option, output in outputs.items():
        if output in (None, "", STDOUT):
            continue
        if os.path.exists(str(output)) and os.path.samefile(str(output), iso):
            raise IsoError(iso, f"{option} {output}: cannot replace the image that it is made from")
        place = os.path.realpath(str(output))
        if place in options and not is_stream(Path(place)):
            raise IsoError(iso, f"{option} {output}: is where {options[place]} is written to")
        options[place] = option


def _say(line: str) -> None:
    """Print a line whose words may be an image's: a terminal must not take them for its own."""
    print("".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line))


def extract(args: argparse.Namespace) -> int:
    """Print a file, or list a directory."""
    with open_image(args.iso) as overlay:
        iso = overlay.iso(args.iso)
        extent = iso.find(args.path)
        if extent is None:
            raise IsoError(args.iso, f"has no file {args.path}")
        _check_outputs(args.iso, {"--output": args.output})
        if extent.directory:
            for name, entry in sorted(iso.entries(extent), key=lambda item: (item[0] or item[1].name).lower()):
                entry_name = name or entry.name.partition(";")[0]
                _say(entry_name + ("/" if entry.directory else ""))
            return 0
        part = Overlay(overlay.base)
        part.move(0, extent.offset, extent.length)
        part.truncate(extent.length)
        if args.output in (None, STDOUT):
            sys.stdout.flush()
            part.stream(sys.stdout.fileno())
        else:
            part.save(Path(args.output), 0o644)
    return 0


def minimal(args: argparse.Namespace) -> int:
    """Make an image that gets its root file system from a URL."""
    from installer.image.iso.minimal import check_url, extract_rootfs, make_minimal

    check_url(args.rootfs_url)
    with open_image(args.iso) as overlay:
        _check_outputs(args.iso, {"--output": args.output, "--rootfs": args.rootfs})
        if args.rootfs:
            extract_rootfs(overlay, args.iso, Path(args.rootfs))
        make_minimal(overlay, args.iso, args.rootfs_url)
        finish(overlay, args.iso, args.output)
    return 0


def fetch(args: argparse.Namespace) -> int:
    """Write the live ISO of a release."""
    from installer.upi import media

    media.fetch(args.dir, Path(args.output))
    return 0


_COMMANDS = {
    "fetch": fetch,
    "show": show,
    "embed": embed,
    "reset": reset,
    "kargs": kargs,
    "extract": extract,
    "minimal": minimal,
}


def run(args: argparse.Namespace) -> int:
    """Run `node0 iso ...`; returns the exit code. Raises InstallerError."""
    try:
        return _COMMANDS[args.iso_command](args)
    except ValueError as error:
        # The areas' content does not fit their format.
        raise IsoError(args.iso, f"the embedded data is damaged: {error}") from error
