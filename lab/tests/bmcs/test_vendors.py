"""Requests that vendors' BMCs do not carry out, and resets that do not happen."""

import os
from base64 import b64encode
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler

import pytest
from werkzeug.test import Client

from drivers.container import Request
from drivers.errors import BootError, PowerError
from lab.bmcs.front import Front
from lab.bmcs.profile import profile, profiles
from lab.bmcs.shared import Shared
from lab.testing.bmcs import PASSWORD, USER, Contained, Memory, emulated, hurried

NAMES = [name for name, each in profiles().items() if each.system]
LOGIN = ("reader", "of-images")


class Bmc:
    """A vendor's BMC, its delays multiplied, `machine` behind it."""

    def __init__(self, app, name, machine, factor=0):
        self.profile, self.machine = hurried(profile(name), factor), machine
        self.front = Front(self.profile, "master-0", app, lambda user, word: (user, word) == (USER, PASSWORD))
        self.client = Client(self.front)
        session = self.client.post("/redfish/v1/SessionService/Sessions", json={"UserName": USER, "Password": PASSWORD})
        self.headers = {"X-Auth-Token": session.headers["X-Auth-Token"], "If-Match": "*"}
        self.system = self.front.state.system
        owner = self.front.state.manager if self.profile.media.at == "manager" else self.system
        self.media = f"{owner}/VirtualMedia"

    def ask(self, method, path, body=None):
        return self.client.open(path, method=method, json=body, headers=self.headers)

    def get(self, path):
        return self.ask("GET", path).get_json()

    def boot(self, target, enabled):
        path = f"{self.system}/Settings" if self.profile.boot.settings else self.system
        body = {"BootSourceOverrideTarget": target, "BootSourceOverrideEnabled": enabled}
        return self.ask("PATCH", path, {"Boot": {name: word for name, word in body.items() if word is not None}})

    @property
    def override(self):
        boot = self.get(f"{self.system}/Settings" if self.profile.boot.settings else self.system)["Boot"]
        return boot["BootSourceOverrideTarget"], boot["BootSourceOverrideEnabled"]

    def reset(self, kind):
        return self.ask("POST", f"{self.system}/Actions/ComputerSystem.Reset", {"ResetType": kind})

    def insert(self, drive, **body):
        return self.ask("POST", f"{self.media}/{drive}/Actions/VirtualMedia.InsertMedia", body)


@pytest.fixture
def bmc(request, tmp_path):
    machine = Memory(installed=True)
    with emulated(Contained(machine), tmp_path) as app:
        yield Bmc(app, request.param, machine)


def refused(answer, status=400):
    assert answer.status_code == status, answer.get_data(as_text=True)
    [info] = answer.get_json()["error"]["@Message.ExtendedInfo"]
    assert info["Message"]


@contextmanager
def failing(bmc, monkeypatch, operation="", error=PowerError):
    """Within the block the machine's daemon fails at an operation, or at all of them."""
    usual = bmc.machine.ask

    def ask(request):
        if operation in ("", request.op):
            raise error("it does not work", machine="master-0")
        return usual(request)

    with monkeypatch.context() as patched:
        patched.setattr(bmc.machine, "ask", ask)
        yield


@pytest.fixture
def image(serve, tmp_path):
    """Provide the URL of an image."""
    (tmp_path / "some.iso").write_bytes(b"no image at all")
    return f"{serve(SimpleHTTPRequestHandler)}/some.iso"


def inside(bmc):
    """Tell whether the machine's drive holds an image."""
    return bool(bmc.machine.ask(Request(op="list"))[0].media)


@pytest.mark.parametrize("bmc", NAMES, indirect=True)
def test_an_action_that_there_is_not_switches_nothing(bmc):
    for action in ("ComputerSystem.Reset0", "Oem/Reset", "ComputerSystem.Rese"):
        answer = bmc.ask("POST", f"{bmc.system}/Actions/{action}", {"ResetType": "On"})
        assert answer.status_code in (404, 405)
    assert bmc.machine.booted == []


def test_an_ilo_refuses_overrides_while_its_machine_is_in_post(tmp_path):
    machine = Memory()
    with emulated(Contained(machine), tmp_path) as app:
        ilo = Bmc(app, "ilo", machine, factor=1000)
        assert ilo.boot("Cd", "Once").status_code == 204
        assert ilo.reset("On").status_code in (200, 204)
        for refusal in (ilo.boot("Pxe", "Once"), ilo.reset("ForceOff")):
            refused(refusal)
        assert machine.booted == ["nothing"]
        assert machine.machine("master-0").look().on


@pytest.mark.parametrize("bmc", NAMES, indirect=True)
def test_an_override_of_no_known_duration_is_refused(bmc):
    assert bmc.boot("Pxe", "Continuous").status_code == 204
    view = bmc.machine.ask(Request(op="list"))
    unknown: tuple[object, ...] = ("Sometimes", "once", "", 1, ["Once"], {})
    for enabled in unknown:
        refused(bmc.boot("Hdd", enabled))
    assert bmc.override == ("Pxe", "Continuous")
    assert bmc.machine.ask(Request(op="list")) == view


@pytest.mark.parametrize("bmc", NAMES, indirect=True)
def test_an_override_is_there_until_it_is_disabled_and_after_a_restart_of_the_bmc(bmc, request):
    assert bmc.boot("Pxe", "Continuous").status_code == 204
    bmc = Bmc(bmc.front.state.inner.application, request.node.callspec.params["bmc"], bmc.machine)
    assert bmc.override == ("Pxe", "Continuous")
    assert bmc.machine.ask(Request(op="list"))[0].first == "network"
    assert bmc.boot(None if not bmc.profile.boot.needs_enabled else "Pxe", "Disabled").status_code == 204
    assert bmc.override[1] == "Disabled"
    assert bmc.machine.ask(Request(op="list"))[0].first == "hd"


@pytest.mark.parametrize("bmc", NAMES, indirect=True)
def test_an_override_that_the_machine_does_not_take_is_none(bmc, monkeypatch):
    bmc.boot("Pxe", "Continuous")
    with failing(bmc, monkeypatch, "first", BootError):
        refused(bmc.boot("Hdd", "Continuous"))
    assert bmc.override == ("Pxe", "Continuous")


@pytest.mark.parametrize("bmc", ["supermicro"], indirect=True)
def test_a_target_that_boots_nothing_is_not_the_one_before(bmc):
    bmc.boot("UsbCd", "Continuous")
    assert bmc.machine.ask(Request(op="list"))[0].first == "cdrom"
    bmc.boot("Cd", "Continuous")
    assert bmc.machine.ask(Request(op="list"))[0].first == "hd"


@pytest.mark.parametrize("bmc", [name for name in NAMES if profile(name).boot.once == "cleared"], indirect=True)
def test_once_counts_a_power_on_that_happened(bmc, monkeypatch):
    bmc.reset("On")
    assert bmc.boot("Cd", "Once").status_code == 204
    for kind in ("On", "ForceOn"):
        assert bmc.reset(kind).status_code == 204
        assert bmc.override == ("Cd", "Once")
    bmc.reset("ForceOff")
    refused(bmc.reset("ForceRestart"), 409)
    refused(bmc.reset("Explode"), 400)
    assert bmc.override == ("Cd", "Once")
    with monkeypatch.context() as broken:

        def fail(_request):
            raise PowerError("its monitor cannot be started", machine="master-0")

        usual = bmc.machine.ask
        broken.setattr(bmc.machine, "ask", lambda request: fail(request) if request.op == "on" else usual(request))
        refused(bmc.reset("On"), 500)
    assert bmc.override == ("Cd", "Once")
    bmc.machine.ask(Request(op="media", machine="master-0", value="/some.iso"))
    bmc.reset("On")
    assert bmc.machine.booted[-1] == "cdrom"
    assert bmc.override == ("None", "Disabled")


@pytest.mark.parametrize("name", ["idrac", "ilo"])
def test_a_bmc_that_had_nothing_to_do_is_ready(name, tmp_path):
    machine = Memory()
    with emulated(Contained(machine), tmp_path) as app:
        bmc = Bmc(app, name, machine, factor=1)
        now = bmc.front.state.clock() + 60
        bmc.front.state.clock = lambda: now
        assert bmc.reset("ForceOff").status_code == 204
        assert bmc.reset("On").status_code == 204
        now += 60
        assert bmc.reset("On").status_code == 204
        assert bmc.reset("ForceOff").status_code == 204
        assert machine.ask(Request(op="list"))[0].on is False


@pytest.mark.parametrize("bmc", ["ilo"], indirect=True)
def test_an_ilos_medium_leaves_at_the_second_start_and_at_nothing_else(bmc, image, monkeypatch):
    drive = f"{bmc.media}/2"

    def is_in():
        assert bmc.get(drive)["Inserted"] is inside(bmc)
        return inside(bmc)

    assert bmc.insert("2", Image=image).status_code == 204
    refused(bmc.ask("PATCH", drive, {"Oem": {"Hpe": {"BootOnNextServerReset": "yes"}}}))
    refused(bmc.ask("PATCH", drive, {"Oem": "x"}))
    assert bmc.ask("PATCH", drive, {"Oem": {"Hpe": {"BootOnNextServerReset": True}}}).status_code == 204
    for kind in ("On", "On", "ForceOn", "On"):
        assert bmc.reset(kind).status_code == 204
        assert is_in()
    bmc.reset("ForceOff")
    bmc.reset("ForceOff")
    usual = bmc.machine.ask

    def broken(request):
        if request.op == "on":
            raise PowerError("its monitor cannot be started", machine="master-0")
        return usual(request)

    with monkeypatch.context() as patched:
        patched.setattr(bmc.machine, "ask", broken)
        refused(bmc.reset("On"), 500)
    assert is_in()
    bmc.reset("On")
    assert not is_in()


class Guarded(SimpleHTTPRequestHandler):
    """A server that wants an account."""

    def do_GET(self):
        self._guarded(super().do_GET)

    def do_HEAD(self):
        self._guarded(super().do_HEAD)

    def _guarded(self, answer):
        if self.headers["Authorization"] == "Basic " + b64encode(":".join(LOGIN).encode()).decode():
            answer()
        else:
            self.send_error(401)


INSERTS = [("idrac", "1"), ("ilo", "2"), ("supermicro", "CD1"), ("xcc", "RDOC1"), ("idrac10", "2")]


@pytest.mark.parametrize(("bmc", "drive"), INSERTS, indirect=["bmc"])
def test_the_account_of_the_images_server_is_used(bmc, drive, serve, tmp_path):
    (tmp_path / "some.iso").write_bytes(b"no image at all")
    url = f"{serve(Guarded)}/some.iso"
    user, password = LOGIN
    refused(bmc.insert(drive, Image=url))
    refused(bmc.insert(drive, Image=url, UserName=user, Password="wrong"))
    for half in ({"UserName": user}, {"Password": password}, {"UserName": user, "Password": 5}):
        refused(bmc.insert(drive, Image=url, **half))
    assert bmc.get(f"{bmc.media}/{drive}")["Inserted"] is False
    assert bmc.insert(drive, Image=url, UserName=user, Password=password).status_code == 204
    shown = bmc.get(f"{bmc.media}/{drive}")
    assert shown["Inserted"] is True
    assert password not in str(shown)


@pytest.mark.parametrize(("bmc", "drive"), INSERTS, indirect=["bmc"])
def test_what_an_insert_asks_for_is_done_or_refused(bmc, drive, image):
    asked: list[dict[str, object]] = [
        {"WriteProtected": False}, {"Inserted": False}, {"TransferProtocolType": "NFS"}, {"MediaType": "Floppy"},
        {"Image": "http://["}, {"Image": None}, {"Image": 5},
        {"TransferMethod": "Pigeon"}, {"Colour": "red"}, {"WriteProtected": "no"},
    ]  # fmt: skip
    for more in asked:
        refused(bmc.insert(drive, **{"Image": image, **more}))
        assert (bmc.get(f"{bmc.media}/{drive}")["Inserted"], inside(bmc)) == (False, False), more


@pytest.mark.parametrize("bmc", ["xcc"], indirect=True)
def test_a_drive_holds_as_many_mib_as_it_says(bmc, image, tmp_path):
    drive = next(drive for drive in bmc.profile.media.drives if drive.limit_mib)
    for more, status in ((1, 400), (0, 204)):
        os.truncate(tmp_path / "some.iso", (drive.limit_mib << 20) + more)
        assert bmc.insert(drive.id, Image=image).status_code == status


@pytest.mark.parametrize("bmc", NAMES, indirect=True)
def test_drives_are_linked_from_their_owner_alone(bmc):
    owners = {"system": bmc.system, "manager": bmc.front.state.manager}
    linked = {name for name, path in owners.items() if "VirtualMedia" in bmc.get(path)}
    assert linked == {bmc.profile.media.at} & owners.keys()


@pytest.mark.parametrize("bmc", ["xcc"], indirect=True)
def test_a_patch_that_names_no_image_ejects_none(bmc, image):
    drive = f"{bmc.media}/EXT1"
    assert bmc.ask("PATCH", drive, {"Image": image}).status_code == 200
    bodies: tuple[dict[str, object], ...] = (
        {}, {"WriteProtected": True}, {"Oem": {}}, {"Inserted": True}, {"Inserted": "no"}, {"Image": []},
        {"Image": None, "Inserted": True}, {"Image": None, "Colour": "red"},
    )  # fmt: skip
    for body in bodies:
        refused(bmc.ask("PATCH", drive, body))
        assert bmc.get(drive)["Inserted"] is True
    assert bmc.ask("PATCH", drive, {"Image": None}).status_code == 200
    assert bmc.get(drive)["Inserted"] is False


@pytest.mark.parametrize(("bmc", "drive"), INSERTS[:3], indirect=["bmc"])
def test_an_eject_that_fails_leaves_the_image_in_the_books_too(bmc, drive, image, monkeypatch):
    assert bmc.insert(drive, Image=image).status_code == 204
    usual = bmc.machine.ask

    def broken(request):
        if request.op == "media":
            raise PowerError("its monitor does not answer", machine="master-0")
        return usual(request)

    eject = f"{bmc.media}/{drive}/Actions/VirtualMedia.EjectMedia"
    with failing(bmc, monkeypatch, "media"):
        refused(bmc.ask("POST", eject, {}), 500)
    assert (bmc.get(f"{bmc.media}/{drive}")["Inserted"], inside(bmc)) == (True, True)
    assert bmc.ask("POST", eject, {}).status_code == 204
    assert (bmc.get(f"{bmc.media}/{drive}")["Inserted"], inside(bmc)) == (False, False)


@pytest.mark.parametrize(("bmc", "drives"), [("idrac", "21"), ("ilo", "12")], indirect=["bmc"])
def test_two_drives_do_not_hold_what_is_in_the_machines_one(bmc, drives, image):
    first, second = drives
    assert bmc.insert(first, Image=image).status_code == 204
    refused(bmc.insert(second, Image=f"{image}?other"), 500)
    assert [bmc.get(f"{bmc.media}/{drive}")["Image"] for drive in drives] == [image, None]


@pytest.mark.parametrize(("bmc", "drive"), INSERTS[:3], indirect=["bmc"])
def test_a_drive_is_what_the_labs_own_bmc_has_made_of_it(bmc, drive, image):
    state = bmc.front.state
    state.ask("POST", "/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia", {"Image": image})
    assert [bmc.get(f"{bmc.media}/{drive.id}")["Image"] for drive in bmc.profile.media.drives].count(image) == 1
    state.ask("POST", "/VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia", {})
    assert bmc.insert(drive, Image=image).status_code == 204
    state.ask("POST", "/VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia", {})
    assert bmc.get(f"{bmc.media}/{drive}")["Inserted"] is False


@pytest.mark.parametrize("bmc", ["idrac"], indirect=True)
def test_what_the_machine_holds_is_known_after_a_first_request_that_failed(bmc, image, monkeypatch):
    assert bmc.insert("1", Image=image).status_code == 204
    bmc = Bmc(bmc.front.state.inner.application, "idrac", bmc.machine)
    assert bmc.front.state.uuid

    with failing(bmc, monkeypatch):
        refused(bmc.ask("GET", f"{bmc.media}/1"), 500)
    assert bmc.get(f"{bmc.media}/1")["Image"] == image


@pytest.mark.parametrize("bmc", ["fujitsu"], indirect=True)
def test_the_first_request_for_an_irmcs_share_has_what_is_connected(bmc, tmp_path):
    (tmp_path / "some.iso").write_bytes(b"no image at all")
    path = f"{bmc.system}/Oem/ts_fujitsu/VirtualMedia"
    bmc.ask("PATCH", path, {"CDImage": {"Server": "files.example", "ShareName": "/export", "ImageName": "some.iso"}})
    action = f"{bmc.system}/Actions/Oem/FTSComputerSystem.VirtualMedia"
    assert bmc.ask("POST", action, {"FTSVirtualMediaAction": "ConnectCD"}).status_code == 204
    bmc = Bmc(bmc.front.state.inner.application, "fujitsu", bmc.machine)
    assert bmc.get(path)["CDImage"]["ImageName"] == "some.iso"


@pytest.mark.parametrize("bmc", ["idrac", "ilo", "nobody"], indirect=True)
def test_what_comes_with_an_override_is_done_or_refused(bmc):
    override = {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Continuous"}
    bodies: tuple[dict[str, object], ...] = (
        {"Boot": {**override, "BootSourceOverrideMode": "Legacy"}},
        {"Boot": {**override, "HttpBootUri": "http://files.example/"}},
        {"Boot": {}}, {"Boot": override, "AssetTag": "x"}, {"Boot": override, "IndicatorLED": "Green"},
    )  # fmt: skip
    for body in bodies:
        refused(bmc.ask("PATCH", bmc.system, body))
        assert bmc.override == ("None", "Disabled"), body
    boot = {**override, "BootSourceOverrideMode": "UEFI"}
    assert bmc.ask("PATCH", bmc.system, {"@odata.id": bmc.system, "Boot": boot}).status_code == 204
    assert bmc.ask("PATCH", bmc.system, {"IndicatorLED": "Blinking", "Boot": override}).status_code == 204
    assert bmc.get(bmc.system)["IndicatorLED"] == "Blinking"
    assert bmc.override == ("Pxe", "Continuous")


@pytest.mark.parametrize("bmc", ["fujitsu"], indirect=True)
def test_an_irmcs_share_is_named_as_a_whole_or_not(bmc):
    path = f"{bmc.system}/Oem/ts_fujitsu/VirtualMedia"
    named = {"Server": "files.example", "ShareName": "/export", "ImageName": "some.iso", "ShareType": "NFS"}
    assert bmc.ask("PATCH", path, {"CDImage": named}).status_code == 200
    before = bmc.get(path)
    for change in ({"ShareType": "FTP"}, {"UserName": "x"}, {"ImageName": 5}, {"ShareName": None}):
        refused(bmc.ask("PATCH", path, {"CDImage": {"Server": "other.example", **change}}))
    refused(bmc.ask("PATCH", path, {"CDImage": "x"}))
    refused(bmc.ask("PATCH", path, {}))
    assert bmc.get(path) == before


@pytest.mark.parametrize("bmc", ["openbmc", "nobody"], indirect=True)
def test_a_login_that_cannot_be_read_is_none(bmc):
    for client in (bmc.client, Client(Shared(bmc.front.state.inner.application, bmc.front.state.account))):
        for word in ("\xff", "w6k", "Og==", "x" * 9000):
            refused(client.get("/redfish/v1/Systems", headers={"Authorization": f"Basic {word}"}), 401)
