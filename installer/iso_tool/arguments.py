"""The command line of `node0 iso`; it loads quickly, since every start of node0 builds it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Add = Callable[..., argparse.ArgumentParser]
_ISO = "the live ISO: a file, or a disk that one was written to"
_OUT = "write the changed image here, - for standard output (default: change ISO in place)"


def add_commands(parent: Any, add: Add) -> None:
    """Add the sub-commands to a sub-parsers object; `add` is the CLI's own way of making one."""
    fetch = add(parent, "fetch", "Write the live ISO of the release that DIR's install-config installs")
    fetch.add_argument("output", metavar="OUT", help="write the image here")
    show = add(parent, "show", "Print what an ISO carries: embed areas, kernel arguments, Ignition config")
    form = show.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--ignition", action="store_true", help="only the Ignition config, as it is")
    embed = add(parent, "embed", "Put an Ignition config into an ISO")
    embed.add_argument("--ignition", required=True, metavar="FILE", help="the config, - for standard input")
    embed.add_argument("--force", action="store_true", help="replace a config that is there already")
    reset = add(parent, "reset", "Make an ISO what it was before anything was embedded")
    kargs = add(parent, "kargs", "Print or change the kernel arguments of an ISO")
    kargs.add_argument("--append", action="append", default=[], metavar="ARG", help="add an argument (repeatable)")
    kargs.add_argument("--delete", action="append", default=[], metavar="ARG", help="remove an argument (repeatable)")
    kargs.add_argument("--default", action="store_true", help="begin with the ISO's own default arguments")
    minimal = add(parent, "minimal", "Make an ISO without root file system, which it then gets from a URL")
    minimal.add_argument("--rootfs-url", required=True, metavar="URL", help="where the hosts will find it")
    minimal.add_argument("--rootfs", metavar="FILE", help="write the root file system here")
    for command in (show, embed, reset, kargs, minimal):
        command.add_argument("iso", metavar="ISO", help=_ISO)
    for command in (embed, reset, kargs):
        command.add_argument("-o", "--output", metavar="OUT", help=_OUT)
    minimal.add_argument("-o", "--output", metavar="OUT", required=True, help="the new image, - for standard output")
    extract = add(parent, "extract", "Print a file of an ISO, or list a directory of it")
    extract.add_argument("iso", metavar="ISO", help=_ISO)
    extract.add_argument(
        "path", metavar="PATH", help="what to print, for example images/pxeboot/vmlinuz; / lists the top"
    )
    extract.add_argument("-o", "--output", metavar="OUT", help="write the file here (default: standard output)")
