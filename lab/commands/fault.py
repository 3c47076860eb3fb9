"""`node0-lab fault begin|end|ls`: break a running lab by hand, and mend it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from installer.common.numbers import real_type, whole_type
from lab.commands.places import add_output, print_json
from lab.errors import LabBrokenError, LabError
from lab.faults import Fault, active
from lab.host import records
from lab.lab import Lab
from lab.supervisor import watch

_EPILOG = """\
Examples:

  node0-lab fault begin link-down --node master-0          pull its cables
  node0-lab fault begin loss --percent 5 --node master-1   lose each twentieth packet to a machine
  node0-lab fault begin latency --ms 100 --jitter-ms 10    whatever the lab sends comes late
  node0-lab fault begin latency --link master-0 --nic enp2s0 --ms 200
                                                           what goes to a machine by one of its cables does
  node0-lab fault begin hang --service dnsmasq             DNS that is silent
  node0-lab fault begin name-missing --name api            no record for the API
  node0-lab fault begin registry-image --image etcd --how error
  node0-lab fault begin kill --node master-0 --process etcd
  node0-lab fault begin disk-errors --node master-0        writes to its disk fail, if its topology lets it
  node0-lab fault ls                                       what lasts, by number
  node0-lab fault end 1                                    mend it; without a number, all
"""

#: What --help says of a fault's fields.
_TEXTS = {
    "address": "an IP address",
    "away": "how many seconds have passed for its clock when it is on again; VMs only",
    "cpu_percent": "how much of one processor is left to it, in percent",
    "nic": "one of its NICs by its name, for example enp2s0",
    "comes": "whose offers come first: the second server's, or (last) the lab's",
    "disk": "the disk's name in the machine, for example vda",
    "dns": "address of the DNS server that leases name",
    "down_ms": "milliseconds of each period without the link",
    "fails": "what fails: writes, or reads too (all)",
    "gateway": "address of the gateway that leases name",
    "how": "what is wrong with the image",
    "image": "the image's tag in the release, for example etcd",
    "jitter_ms": "milliseconds by which the delay varies, either way",
    "kbit": "limit in kbit/s",
    "kib": "limit in KiB/s, for reads and for writes",
    "left_mib": "MiB to leave free",
    "ms": "delay in milliseconds",
    "mtu": "largest packet that still gets through, in bytes",
    "name": "api, api-int, registry, or a whole name",
    "network": "the network that a second DHCP server leases from",
    "node": "the machine's name, for example master-0",
    "nodes": "the machines' names",
    "path": "a path on the file system that is filled",
    "percent": "of 100 packets, how many",
    "period_ms": "length of a period in milliseconds",
    "process": "which process of the host",
    "way": "which packets: to the machine, or from it",
    "seconds": "by how many the clock jumps, or after how many the host gives its memory back (0: it does not)",
    "service": "the lab's service: dnsmasq, registry, chronyd, bmc, http or proxy",
}
#: What an option that is left out means where the fault's own default is empty.
_WITHOUT = {"nic": "all", "disk": "the one to install on", "node": "any that the lab talks to"}


def _kinds() -> Mapping[str, type[msgspec.Struct]]:
    """Return the faults by their names on the command line: LinkDown is link-down."""
    return {re.sub(r"(?<=.)([A-Z])", r"-\1", kind.__name__).lower(): kind for kind in get_args(Fault)}


def _options(kind: type[msgspec.Struct]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Yield the options of a fault by their names: its fields, with their types, defaults and choices. A machine whose
    cables are what fails may be named as a link."""
    hints = get_type_hints(kind, include_extras=True)
    for field in msgspec.structs.fields(kind):
        hint = hints[field.name]
        option: dict[str, Any] = {"help": _TEXTS[field.name]}
        if get_origin(hint) is Annotated:
            number, limits = get_args(hint)
            option["type"] = (real_type if number is float else whole_type)(limits.ge, limits.le)
        elif choices := get_args(hint):
            if choices[-1] is Ellipsis:
                option |= {"nargs": "+", "type": choices[0]}
            else:
                option |= {"choices": choices}
        else:
            option["type"] = hint
        if field.required:
            option["required"] = True
        else:
            default = _WITHOUT[field.name] if field.default == "" else field.default
            option |= {"default": field.default, "help": f"{_TEXTS[field.name]} (default: {default})"}
        names = [f"--{field.name.replace('_', '-')}"]
        yield [*names, "--link"] if field.name == "node" and "nic" in hints else names, option


def add_arguments(parser: argparse.ArgumentParser, add_lab: Callable[[argparse.ArgumentParser], object]) -> None:
    """Add its commands; `add_lab` adds the option that chooses the lab."""
    parser.epilog, parser.formatter_class = _EPILOG, argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="what")
    begin = commands.add_parser("begin", help="break something", description="Break something in a running lab.")
    kinds = begin.add_subparsers(metavar="FAULT", required=True, dest="fault")
    for name, kind in _kinds().items():
        text = " ".join((kind.__doc__ or "").split())
        one = kinds.add_parser(name, help=text.partition(". ")[0].rstrip("."), description=text, allow_abbrev=False)
        for names, settings in _options(kind):
            one.add_argument(*names, **settings)
        add_lab(one)
    end = commands.add_parser("end", help="mend what was broken", description="End a fault, or all of them.")
    end.add_argument(
        "number",
        type=whole_type(1, 1 << 31),
        nargs="?",
        help="number of the fault, from `node0-lab fault ls` (default: all)",
    )
    add_lab(end)
    listing = commands.add_parser(
        "ls", help="list what is broken now", description="List the faults that have begun and not ended."
    )
    add_lab(listing)
    add_output(listing)


def fault_of(arguments: argparse.Namespace) -> Fault:
    """Return the fault that the options describe. Raises LabError."""
    kind = _kinds()[arguments.fault]
    values = {field.name: getattr(arguments, field.name) for field in msgspec.structs.fields(kind)}
    try:
        fault: Fault = msgspec.convert({"type": kind.__name__, **values}, Fault, strict=False)
    except msgspec.ValidationError as error:
        # The path in the data means nothing to somebody who gave options.
        raise LabError(f"{arguments.fault}: {str(error).partition(' - at `')[0]}") from error
    return fault


def _text(fault: Fault) -> str:
    values = {
        name: _WITHOUT.get(name, value) if value == "" else value for name, value in msgspec.to_builtins(fault).items()
    }
    return msgspec.yaml.encode(values).decode().strip().replace("\n", ", ")


def run(arguments: argparse.Namespace, record: records.Record) -> int:
    """Run the command in a lab that runs; returns the exit code. Raises LabError."""
    if arguments.what == "ls":
        lasting = active.lasting(record.root)
        if arguments.output == "json":
            print_json({"lab": record.id, "faults": msgspec.to_builtins(lasting)})
            return 0
        for begun in lasting:
            print(f"{begun.number}  {begun.since}  {_text(begun.fault)}")
        if not lasting:
            print(f"no fault lasts in lab {record.id}")
        return 0
    failed = watch.noted(record.root)
    if arguments.what == "begin" and failed:
        parts = "; ".join(watch.described(item) for item in failed)
        raise LabBrokenError(f"lab {record.id} itself has failed, so that no fault can begin: {parts}")
    # What lasts in one that has failed can be ended.
    with Lab.attach(record.id, watched=not failed) as lab:
        if arguments.what == "begin":
            fault = fault_of(arguments)
            item = active.begin(lab, fault)
            mends = f"begun; `node0-lab fault end {item.number}` mends it" if item else "done; there is nothing to end"
            print(f"{item.number if item else '-'}  {_text(fault)}: {mends}")
        else:
            lines = 0
            for item in active.end(lab, arguments.number):
                lines += 1
                print(f"{item.number}  {_text(item.fault)}: ended")
            if not lines:
                print(f"no fault lasts in lab {lab.id}")
    return 0
