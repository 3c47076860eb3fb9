"""`node0 agent boot` and the lab's BMCs, which behave like vendors': all of them by one run (docs/bmcs.md)."""

import dataclasses
import logging
import os
import socket
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from drivers.container import Machines, Request
from drivers.errors import NotFoundError
from installer.common.certificates import authority
from installer.common.ports import free_port
from installer.common.redfish import connection, media
from installer.errors import InstallerError
from installer.hub.baremetal import redfish
from installer.hub.baremetal.address import parse
from installer.hub.baremetal.provisioner import Account
from installer.ipi import boot, imageserver, targets
from installer.ipi.media import Media
from installer.ipi.record import Record
from installer.ipi.targets import Target
from lab.bmcs.front import Front
from lab.bmcs.profile import profile, working
from lab.bmcs.serving import context, serve
from lab.daemons.pki import issue
from lab.testing.bmcs import PASSWORD, USER, Contained, Memory, emulated, hurried

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")]
SHARE = "nfs://files.example/export/agent.x86_64.iso"


class Rack(Machines):
    """Machines that run nothing, by their names."""

    def __init__(self, names):
        self.machines = [Memory(name=name) for name in names]

    def ask(self, request: Request):
        """As the daemon does."""
        if request.op == "list":
            return tuple(view for machine in self.machines for view in machine.ask(request))
        for machine in self.machines:
            if request.machine in (machine.name, machine.uuid):
                return machine.ask(request)
        raise NotFoundError("there is no such machine", machine=request.machine)


class Bay:
    """The rack's machines, each behind another profile's BMC."""

    def __init__(self, folder: Path, names) -> None:
        self.rack = Rack(names)
        self._folder = folder
        self._fronts: dict[str, Front] = {}
        self._servers: dict[str, Any] = {}

    def machine(self, name: str) -> Memory:
        """Return the machine behind a profile."""
        return next(machine for machine in self.rack.machines if machine.name == name)

    def media(self, name: str, change: str | None = None) -> str:
        """Return what its drive holds, which may be changed by somebody else."""
        if change is not None:
            self.machine(name).ask(Request(op="media", machine=name, value=change))
        [view] = self.machine(name).ask(Request(op="list"))
        return view.media

    def start(self, name: str, port: int = 0) -> None:
        """Have its BMC answer."""
        tls = context(self._folder / "server.crt", self._folder / "server.key", profile(name).tls)
        self._servers[name] = serve(self._fronts[name], "127.0.0.1", port, tls)

    def stop(self, name: str) -> int:
        """Have its BMC answer no more; its port."""
        server = self._servers.pop(name)
        server.shutdown()
        server.server_close()
        return int(server.server_port)

    def target(self, name: str, password: str = PASSWORD, port: int = 0) -> Target:
        """Return what install-config would say of it."""
        url = f"https://127.0.0.1:{port or self._servers[name].server_port}"
        address = parse(f"redfish-virtualmedia+{url}/redfish/v1/Systems/{profile(name).system}")
        return Target(name, address, Account(USER, password), verify=False, tls="1.1")

    @contextmanager
    def running(self):
        """Have all BMCs answer, with short delays, for the block."""
        ca = authority("test")
        issue(ca, ["127.0.0.1"], self._folder)
        with emulated(Contained(self.rack), self._folder / "state") as application:
            for machine in self.rack.machines:
                bmc = hurried(profile(machine.name), 0.02)
                self._fronts[machine.name] = Front(
                    bmc, machine.name, application, lambda *login: login == (USER, PASSWORD), restarts=True
                )
                self.start(machine.name)
            try:
                yield self
            finally:
                for name in list(self._servers):
                    self.stop(name)


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """Look more often: the BMCs are quicker, too."""
    for module, name in (
        (boot, "LOOK_AGAIN_SECONDS"), (targets, "AGAIN_SECONDS"), (redfish, "_POLL_SECONDS"), (media, "POLL_SECONDS"),
        (connection, "_POLL_SECONDS"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, 0.05)


@pytest.fixture
def image(tmp_path):
    """Provide an image, and the same on the network share."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "state/agent.x86_64.iso").write_bytes(b"no image at all")
    path = tmp_path / "assets/agent.x86_64.iso"
    path.write_bytes(b"no image at all")
    os.utime(path, (0, 0))
    return path


class Installed:
    """A rendezvous service that says that every machine which has booted its CD runs from its disk."""

    problem = ""

    def __init__(self, bay: Bay) -> None:
        self._bay = bay

    def look(self) -> None:
        """Ask nobody."""

    def host(self, target: Target):
        """Tell nothing of it."""

    def left(self, target: Target) -> bool:
        """Tell whether it has booted its CD."""
        return "cdrom" in self._bay.machine(target.name).booted

    def failed(self, _targets):
        """Tell of none."""
        return []


@contextmanager
def command(image: Path, targets, **changed):
    """Provide one run's books and options, with its image server up."""
    words = {"ports": (free_port(), free_port()), "timeout": 60.0, "image_urls": (SHARE,)} | changed
    options = boot.Options(**words)
    (image.parent / boot.FOLDER).mkdir(exist_ok=True)
    record = Record.load(image.parent / boot.BOOKS, image, list(options.image_urls))
    path = record.path_of(image)
    with imageserver.serving({path: image}, ["127.0.0.1"], options.ports):
        yield record, path, options


def run(bay: Bay, image: Path, targets, **changed) -> None:
    """Do as the command does, with a service that is not there."""
    with command(image, targets, **changed) as (record, path, options):
        steps = boot.looked_at(targets, record, path, options)
        boot.Boot(targets, record, path, options).carry_out(steps, Installed(bay))


def test_all_bmcs_boot_the_image_by_one_run_and_are_left_empty(tmp_path, image, caplog):
    caplog.set_level(logging.DEBUG)
    names = working()
    with Bay(tmp_path, names).running() as found:
        rack = [found.target(name) for name in names]
        run(found, image, rack)
        assert {machine.name: machine.booted for machine in found.rack.machines} == {name: ["cdrom"] for name in names}
        for machine in found.rack.machines:
            assert found.media(machine.name) == ""
            machine.installed = True
            machine.boot()
            assert machine.booted[1:] == ["hd"]
        # A second run has nothing left to do.
        run(found, image, rack)
    assert PASSWORD not in caplog.text
    assert f"/{msgspec.json.decode((image.parent / boot.BOOKS).read_bytes())['token']}/" not in caplog.text


def test_all_bmcs_that_cannot_be_used_are_named_in_time_and_nothing_is_changed(tmp_path, image, caplog):
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, Bay(tmp_path, ["idrac", "xcc", "bare", "liar"]).running() as found:
        rack = [
            found.target("idrac"),
            found.target("xcc", "hidden-wrong"),
            found.target("bare"),
            dataclasses.replace(found.target("liar", port=free_port()), name="off"),
            dataclasses.replace(found.target("liar", port=silent.getsockname()[1]), name="silent"),
        ]
        begin = time.monotonic()
        with pytest.raises(InstallerError, match=r"^4 of 5 hosts cannot be booted; nothing was changed$"):
            run(found, image, rack)
        assert time.monotonic() - begin < 10
        assert not any(machine.booted for machine in found.rack.machines)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("installer.ipi")]
    for name, cause in (
        ("xcc", "refuses the account (401)"), ("bare", "no virtual CD drive"), ("off", "connection refused"),
        ("silent", "does not answer"),
    ):  # fmt: skip
        assert [line for line in lines if line.startswith(f"{name}: BMC https://127.0.0.1") and cause in line], lines
    assert "hidden-wrong" not in caplog.text


def test_machines_that_run_and_images_of_others_are_left_alone_unless_forced(tmp_path, image, caplog, capsys):
    with Bay(tmp_path, ["idrac", "ilo", "xcc"]).running() as found:
        rack = [found.target(name) for name in ("idrac", "ilo", "xcc")]
        found.machine("idrac").ask(Request(op="on", machine="idrac"))
        (image.parent / "other.iso").write_bytes(b"somebody else's")
        with imageserver.serving({"/hidden/other.iso": image}, ["127.0.0.1"], ports := (free_port(), free_port())):
            theirs = f"http://127.0.0.1:{ports[0]}/hidden/other.iso"
            assert targets.finished(lambda: found.target("ilo").machine().hold(theirs, ""), 10, threading.Event())
        before = found.media("ilo")
        with pytest.raises(InstallerError, match=r"^2 of 3 hosts"):
            run(found, image, rack, plan=True)
        assert "xcc  BMC https://127.0.0.1:" in (plan := capsys.readouterr().out)
        assert "power off: insert the image, boot once from CD, power on" in plan
        assert (found.media("ilo"), found.machine("xcc").booted) == (before, [])
        assert "idrac: it runs: switch it off, or give --force" in caplog.text
        assert "ilo: its virtual CD drive holds http://127.0.0.1/…/other.iso, which this command has not" in caplog.text
        assert "/hidden/" not in caplog.text + plan
        run(found, image, rack, force=True)
        assert [machine.booted[-1] for machine in found.rack.machines] == ["cdrom"] * 3


def test_a_bmc_that_dies_once_it_has_the_image_is_named_and_gone_on_with(tmp_path, image, caplog, monkeypatch):
    died: dict[str, int] = {}

    def note(self: Record, name: str, step: str, noted=Record.note) -> None:
        noted(self, name, step)
        if (name, step) == ("idrac", "inserted") and not died:
            died[name] = found.stop(name)

    monkeypatch.setattr(Record, "note", note)
    with Bay(tmp_path, ["idrac", "xcc"]).running() as found:
        rack = [found.target(name) for name in ("idrac", "xcc")]
        with pytest.raises(InstallerError, match=r"^1 of 2 hosts were not booted"):
            run(found, image, rack)
        assert found.machine("xcc").booted == ["cdrom"]
        assert "idrac: BMC https://127.0.0.1" in caplog.text
        assert "the image was inserted, but the host was not started: see to its BMC, then run" in caplog.text
        assert "idrac: the image may still be in its virtual CD drive" in caplog.text
        held = found.media("idrac")
        found.start("idrac", died["idrac"])
        run(found, image, rack)
        assert held
        assert found.machine("idrac").booted == ["cdrom"]
        assert found.machine("xcc").booted == ["cdrom"]
        assert [found.media(name) for name in ("idrac", "xcc")] == ["", ""]


def test_a_run_after_one_that_was_killed_follows_what_runs_and_empties_the_drives(tmp_path, image):
    with Bay(tmp_path, ["idrac"]).running() as found:
        rack = [found.target("idrac")]
        with command(image, rack) as (record, path, options):
            assert Media(record, options.ports).start(rack[0], path) == ""
        assert found.media("idrac")
        run(found, image, rack)
        assert found.machine("idrac").booted == ["cdrom"]
        assert found.media("idrac") == ""


def test_hosts_that_do_not_come_are_named_and_their_drives_emptied(tmp_path, image, monkeypatch):
    monkeypatch.setattr(Installed, "left", lambda *_: False)
    with Bay(tmp_path, ["idrac"]).running() as found:
        with pytest.raises(InstallerError, match=r"within 3 s: idrac has not registered with the rendezvous service"):
            run(found, image, [found.target("idrac")], timeout=3)
        assert (found.machine("idrac").booted, found.media("idrac")) == (["cdrom"], "")
