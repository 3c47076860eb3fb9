"""BareMetalHost: one step of its states (baremetal/states.py) a reconcile, and its pairing with an Agent."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from installer.hub.admission import baremetalhost
from installer.hub.baremetal import pairing
from installer.hub.baremetal.address import parse
from installer.hub.baremetal.hardware import from_inventory
from installer.hub.baremetal.provisioner import Account, Done, Failed, Outcome, Power, Provisioner
from installer.hub.baremetal.redfish import RedfishMachine
from installer.hub.baremetal.states import Action, Settled, State, Step, Wanted, plan, settle
from installer.hub.baremetal.status import (
    HARDWARE,
    INSPECT,
    PAUSED,
    REBOOT,
    STATUS,
    conditions_of,
    credentials_of,
    host_of,
    inspects,
    json_object,
    spec_of,
    status_of,
    wanted_of,
)
from installer.hub.baremetal.status import INFRA_ENV as INFRA_ENV_LABEL
from installer.hub.controllers import hostparts
from installer.hub.controllers.infraenv import QUIET
from installer.hub.controllers.preprovisioning import MAKING_SECONDS
from installer.hub.kube.kinds import (
    AGENT,
    AGENT_SERVICE_CONFIG,
    BARE_METAL_HOST,
    DATA_IMAGE,
    HARDWARE_DATA,
    INFRA_ENV,
    NMSTATE_CONFIG,
    PREPROVISIONING_IMAGE,
    SECRET,
    Json,
    Key,
    Kind,
    annotations_of,
    is_deleted,
    key_of,
    labels_of,
    owner_reference,
    uid_of,
)
from installer.hub.kube.manager import Hub
from installer.hub.tables import preprovisioning

_BY_MAC = "mac"
Machines = Callable[[Json, Account], Provisioner]


def redfish_machine(bmh: Json, account: Account, authorities: str = "") -> Provisioner:
    """Return the machine behind a host's BMC; ``authorities``: the file of those that may have signed its certificate,
    empty for the system's."""
    bmc = spec_of(bmh)["bmc"]
    verify: bool | str = False if bmc.get("disableCertificateVerification") else authorities or True
    mode = spec_of(bmh).get("bootMode") or ""
    return RedfishMachine(parse(bmc["address"]), account, verify=verify, boot_mode=mode)


class _Login(NamedTuple):
    """A BMC's Secret: its resourceVersion (empty: not usable), the account, and what is wrong with it."""

    version: str = ""
    account: Account | None = None
    problem: str = ""


@dataclass(frozen=True)
class _Pause:
    """The time until which the same step is not taken again, unless what it depends on changes."""

    depends: tuple[object, ...]
    until: float
    why: str


class BareMetalHostController:
    """The controller. Between reconciles it remembers machines' connections and waits, which it can do without."""

    kind = BARE_METAL_HOST

    def __init__(
        self, hub: Hub, *, machines: Machines = redfish_machine, is_converged: Callable[[], bool] = bool
    ) -> None:
        """`machines` makes the Provisioner of a host; `is_converged`: the converged flow is allowed now."""
        self._hub = hub
        self._hosts, self._agents = hub.caches[BARE_METAL_HOST], hub.caches[AGENT]
        self._hosts.index(_BY_MAC, lambda bmh: filter(None, [pairing.mac_of(bmh)]))
        self._agents.index(_BY_MAC, pairing.macs_of)
        self._machine_of, self._is_converged = machines, is_converged
        self._machines: dict[Key, tuple[tuple[object, ...], Provisioner]] = {}
        self._secrets: dict[Key, _Login] = {}
        self._pauses: dict[Key, _Pause] = {}
        self._freshness = pairing.Freshness(QUIET + MAKING_SECONDS)

    def watches(self) -> Mapping[Kind, Callable[[Json], Iterable[Key]]]:
        """As Controller says."""

        def hosts(obj: Json, labels: Mapping[str, str] | None = None) -> list[Json]:
            return self._hosts.list(key_of(obj).namespace, labels)

        def of_macs(obj: Json, macs: Iterable[str]) -> list[Key]:
            found = (key_of(host) for mac in macs for host in self._hosts.by(_BY_MAC, mac))
            return [key for key in found if key.namespace == key_of(obj).namespace]

        return {
            BARE_METAL_HOST: lambda host: of_macs(host, [pairing.mac_of(host)]),
            AGENT: lambda agent: of_macs(agent, pairing.macs_of(agent)),
            AGENT_SERVICE_CONFIG: lambda _: map(key_of, self._hosts.list()),
            PREPROVISIONING_IMAGE: lambda image: [key_of(image)],
            INFRA_ENV: lambda env: map(key_of, hosts(env, {INFRA_ENV_LABEL: key_of(env).name})),
            NMSTATE_CONFIG: lambda config: [
                key_of(host) for host in hosts(config) if INFRA_ENV_LABEL in labels_of(host)
            ],
            SECRET: lambda secret: [key_of(host) for host in hosts(secret) if _secret_key(host) == key_of(secret)],
        }

    def reconcile(self, key: Key) -> float | None:
        """As Controller says."""
        bmh = self._hosts.get(key)
        if bmh is None:
            self._forget(key)
            return None
        bmh, problem, wait, prepared = self._pair(bmh)
        if PAUSED in annotations_of(bmh):
            return wait
        if self._take_annotations(bmh) is not bmh:
            return 0.0
        after = self._step(bmh, wanted_of(bmh, prepared), problem)
        return min((seconds for seconds in (after, wait) if seconds is not None), default=None)

    # -- pairing -----------------------------------------------------------------------------------------------------

    def _pair(self, bmh: Json) -> tuple[Json, str, float | None, str]:
        """Bring host and Agent together.

        Returns the host, a problem, the seconds until its image may be set, and the URL of its PreprovisioningImage.
        """
        key, problem, wait = key_of(bmh), "", None
        name = labels_of(bmh).get(INFRA_ENV_LABEL, "")
        infra_env = self._hub.caches[INFRA_ENV].get(Key(key.namespace, name)) if name else None
        is_alone = not pairing.same_mac(bmh, self._hosts.by(_BY_MAC, pairing.mac_of(bmh)))
        agent = pairing.agent_for(bmh, self._agents.by(_BY_MAC, pairing.mac_of(bmh))) if name and is_alone else None
        if is_deleted(bmh):
            return self._say_farewell(bmh, agent), "", None, ""
        if infra_env is not None:
            wait = self._stale_seconds(infra_env)
        elif name:
            problem = f"InfraEnv {name}, which the label {INFRA_ENV_LABEL} names, is not in namespace {key.namespace}"
        live = Key(key.namespace, annotations_of(bmh).get(pairing.LIVE, ""))
        # After a start the cache of Agents may be older than that of hosts; a boot breaks an installation off.
        is_lost = bool(live.name) and not self._agents.get(live) and not self._hub.api.get(AGENT, live)
        prepared = self._prepared(bmh, agent)
        change = pairing.bmh_change(bmh, infra_env, agent, is_quiet=wait is None, is_lost=is_lost, prepared=prepared)
        if change:
            bmh = self._hub.patch(BARE_METAL_HOST, bmh, change)
        if agent is not None and not is_deleted(agent):
            change, problem = pairing.agent_change(bmh, agent, infra_env)
            if change:
                self._hub.patch(AGENT, agent, change)
            bmh = self._take_inventory(bmh, agent)
        elif name:
            problem = problem or pairing.absent_mac(bmh)
        return bmh, problem, wait, prepared or ""

    def _prepared(self, bmh: Json, agent: Json | None) -> str | None:
        """Return what a host of the converged flow boots; None in the classic one.

        Its PreprovisioningImage is made, and goes with it.
        """
        if not pairing.is_converged(bmh, self._is_converged()):
            return None
        key, spec = key_of(bmh), preprovisioning.wanted(bmh)
        labels = {INFRA_ENV_LABEL: labels_of(bmh)[INFRA_ENV_LABEL]}
        image = self._hub.caches[PREPROVISIONING_IMAGE].get(key)
        if image is None:
            image = PREPROVISIONING_IMAGE.new(key, spec=spec)
            image["metadata"] |= {"labels": labels, "ownerReferences": [owner_reference(BARE_METAL_HOST, bmh)]}
            self._hub.api.create(PREPROVISIONING_IMAGE, image)
        elif image.get("spec") != spec or not labels.items() <= labels_of(image).items():
            gone = dict.fromkeys((image.get("spec") or {}).keys() - spec.keys())
            image = self._hub.patch(PREPROVISIONING_IMAGE, image, {"spec": gone | spec, "metadata": {"labels": labels}})
        return pairing.prepared_url(bmh, image, agent)

    def _stale_seconds(self, infra_env: Json) -> float | None:
        key = key_of(infra_env)
        inputs = pairing.inputs_of(infra_env, self._hub.caches[NMSTATE_CONFIG].list(key.namespace))
        return self._freshness.wait(key, inputs, pairing.iso_url(infra_env), time.monotonic()) or None

    def _say_farewell(self, bmh: Json, agent: Json | None) -> Json:
        if agent is not None and pairing.REMOVE_ON_DELETE in annotations_of(bmh):
            self._hub.api.delete(AGENT, key_of(agent), uid=uid_of(agent))
        change = pairing.farewell(bmh)
        return self._hub.patch(BARE_METAL_HOST, bmh, change) if change else bmh

    def _take_inventory(self, bmh: Json, agent: Json) -> Json:
        """Take the hardware from an Agent's inventory, where nobody inspects."""
        status = bmh.get("status") or {}
        inventory = (agent.get("status") or {}).get("inventory") or {}
        if (
            not status
            or not inventory.get("interfaces")
            or inspects(bmh)
            or (status.get("hardware") or {}).get("hostname")
        ):
            return bmh
        hostname = (agent.get("spec") or {}).get("hostname") or ""
        return self._take_hardware(bmh, from_inventory(inventory, hostname))

    # -- states ------------------------------------------------------------------------------------------------------

    def _take_annotations(self, bmh: Json) -> Json:
        """Take over the status or the hardware that an annotation gives; returns the object as it is then."""
        annotations = annotations_of(bmh)
        if STATUS in annotations:
            if not bmh.get("status") and (status := json_object(annotations[STATUS])):
                bmh = self._hub.write_status(BARE_METAL_HOST, bmh, status)
            return self._without(bmh, STATUS)
        if HARDWARE in annotations and bmh.get("status"):
            hardware = json_object(annotations[HARDWARE])
            if hardware and (inspects(bmh) is False or not bmh["status"].get("hardware")):
                bmh = self._take_hardware(bmh, hardware)
                self._hub.events.event(bmh, "UpdateHardwareDetails", "Set hardware details from the annotation")
            else:
                self._hub.events.event(bmh, "RemoveAnnotation", f"{HARDWARE} is not taken: it is inspected or no JSON")
            return self._without(bmh, HARDWARE)
        return bmh

    def _without(self, bmh: Json, annotation: str) -> Json:
        return self._hub.patch(BARE_METAL_HOST, bmh, {"metadata": {"annotations": {annotation: None}}})

    def _take_hardware(self, bmh: Json, hardware: Json) -> Json:
        bmh = self._hub.write_status(BARE_METAL_HOST, bmh, {**(bmh.get("status") or {}), "hardware": hardware})
        self._keep_hardware(bmh, hardware)
        return bmh

    def _keep_hardware(self, bmh: Json, hardware: Json) -> None:
        """Write the HardwareData beside a host, which goes with it."""
        key = key_of(bmh)
        old = self._hub.api.get(HARDWARE_DATA, key)
        if old is None:
            data = HARDWARE_DATA.new(key, spec={"hardware": hardware})
            data["metadata"]["ownerReferences"] = [owner_reference(BARE_METAL_HOST, bmh)]
            self._hub.api.create(HARDWARE_DATA, data)
        elif (old.get("spec") or {}).get("hardware") != hardware:
            self._hub.api.update(HARDWARE_DATA, {**old, "spec": {"hardware": hardware}})

    def _step(self, bmh: Json, wanted: Wanted, pairing_problem: str) -> float | None:
        """Take one step; returns the seconds until the next."""
        key, host = key_of(bmh), host_of(bmh)
        login = self._login(bmh)
        step = plan(wanted, host, credentials_of(bmh, login.version))
        pause, generation = self._pauses.get(key), bmh["metadata"].get("generation")
        if (
            pause
            and pause.depends == (wanted, host, login, generation)
            and (left := pause.until - time.monotonic()) > 0
        ):
            conditions = conditions_of(host, why=pause.why, problem=pairing_problem)
            self._hub.write_status(BARE_METAL_HOST, bmh, status_of(bmh, host, conditions, self._hub.now()))
            return left
        outcome = self._act(step, bmh, wanted.image, login)
        if step.action is Action.DELETE and isinstance(outcome, Done):
            self._forget(key)
            self._hub.remove_finalizer(BARE_METAL_HOST, bmh, pairing.METAL3_FINALIZER)
            return None
        settled = settle(wanted, host, step, outcome)
        bmh = self._write(bmh, step, settled, outcome, login=login, problem=pairing_problem)
        moved = (settled.host.state, settled.host.operational) != (host.state, host.operational)
        self._pauses.pop(key, None)
        if settled.wait:
            depends = (wanted, settled.host, login, generation)
            self._pauses[key] = _Pause(depends, time.monotonic() + settled.wait, settled.why)
        return 0.0 if moved or settled.rebooted or settled.inspected else settled.wait

    def _write(self, bmh: Json, step: Step, settled: Settled, outcome: Outcome, *, login: _Login, problem: str) -> Json:
        """Write a step's result, then its events; returns the host."""
        registered = step.action is Action.REGISTER
        health = outcome.health if isinstance(outcome, Done) else ""
        status = status_of(
            bmh, settled.host, conditions_of(settled.host, why=settled.why, problem=problem, health=health),
            self._hub.now(), version=login.version if registered else "", worked=isinstance(outcome, Done),
        )  # fmt: skip
        hardware = outcome.hardware if isinstance(outcome, Done) else None
        if hardware and (step.action is Action.INSPECT or not status.get("hardware")):
            status["hardware"] = hardware
        before = host_of(bmh)
        bmh = self._hub.write_status(BARE_METAL_HOST, bmh, status)
        if hardware and step.action is Action.INSPECT:
            self._keep_hardware(bmh, hardware)
        for reason, message in settled.events:
            failed = isinstance(outcome, Failed)
            reason = "BMCCredentialError" if failed and registered and login.problem else reason
            if not failed or (before.fault, before.message) != (settled.host.fault, message):
                self._hub.events.event(bmh, reason, message, warning=failed)
        gone = [REBOOT] * settled.rebooted + [INSPECT] * settled.inspected
        if gone := [name for name in gone if name in annotations_of(bmh)]:
            bmh = self._hub.patch(BARE_METAL_HOST, bmh, {"metadata": {"annotations": dict.fromkeys(gone)}})
        return bmh

    def _act(self, step: Step, bmh: Json, image: str, login: _Login) -> Outcome:
        """Call the machine."""
        if step.action in (Action.NOTHING, Action.ATTACH):
            return Done()
        if step.action in (Action.DETACH, Action.DELETE):
            known = self._machines.pop(key_of(bmh), None)
            if known is None:
                return Done()
            return known[1].detach() if step.action is Action.DETACH else known[1].delete()
        if login.account is None:
            return Failed(login.problem)
        machine = self._machine(bmh, login.version, login.account)
        if step.action is Action.PROVISION:
            return machine.provision(image)
        if step.action is Action.POWER:
            outcome = self._hold_data(bmh, machine) if step.order is Power.ON else Done()
            return machine.power(step.order) if isinstance(outcome, Done) else outcome
        calls = {
            Action.REGISTER: machine.register, Action.INSPECT: machine.inspect,
            Action.PREPARE: machine.prepare, Action.DEPROVISION: machine.deprovision,
        }  # fmt: skip
        return calls[step.action]()

    def _hold_data(self, bmh: Json, machine: Provisioner) -> Outcome:
        """Have the drive hold the host's DataImage before the machine is started."""
        image, host = self._hub.caches[DATA_IMAGE].get(key_of(bmh)), host_of(bmh)
        in_use = host.state in (State.PROVISIONED, State.EXTERNALLY_PROVISIONED)
        if image is None or host.powered_on or not in_use:
            return Done()
        outcome: Outcome = Failed(f"DataImage {key_of(image).name}: spec.url: it is no URL of http or https")
        url = hostparts.wanted_image(image)
        if not url or baremetalhost.is_web_url(url):
            outcome = machine.hold(url, hostparts.attached_image(image))
        hostparts.write_attached(self._hub, image, outcome.message if isinstance(outcome, Failed) else "")
        return outcome

    def _login(self, bmh: Json) -> _Login:
        """Read the BMC's Secret, of the host's namespace only."""
        if not wanted_of(bmh).managed:
            return _Login(problem="spec.bmc.address names no BMC")
        found = baremetalhost.problems(None, bmh)
        if not is_deleted(bmh) and (other := pairing.same_mac(bmh, self._hosts.by(_BY_MAC, pairing.mac_of(bmh)))):
            found.append(other)
        key = _secret_key(bmh)
        secret = self._secret(key, is_leaving=is_deleted(bmh)) if key.name else None
        if secret is None and key.name:
            found.append(f"spec.bmc.credentialsName: Secret {key.name} is not in namespace {key.namespace}")
        if secret and secret.problem:
            found.append(secret.problem)
        return _Login(problem="; ".join(found)) if found or secret is None else secret

    def _secret(self, key: Key, *, is_leaving: bool) -> _Login | None:
        """Read a Secret that has changed since, None if there is none.

        A host that leaves is switched off with the last login: its Secret is often deleted in the same command.
        """
        seen, known = self._hub.caches[SECRET].get(key), self._secrets.get(key)
        if seen and known and seen["metadata"]["resourceVersion"] == known.version:
            return known
        secret = self._hub.api.get(SECRET, key)
        if secret is None:
            return known if is_leaving else None
        words = {name: _decoded(secret, name) for name in ("username", "password")}
        wrong = [f"{name} {why}" for name, word in words.items() if (why := _wrong(word))]
        problem = f"Secret {key.name}, of spec.bmc.credentialsName: {'; '.join(wrong)}" if wrong else ""
        account = Account(words["username"], words["password"])
        login = self._secrets[key] = _Login(secret["metadata"]["resourceVersion"], account, problem)
        return login

    def _machine(self, bmh: Json, version: str, account: Account) -> Provisioner:
        """Return the machine of a host, the same one until its BMC or login changes."""
        key, bmc = key_of(bmh), spec_of(bmh)["bmc"]
        identity = uid_of(bmh), version, str(bmc), spec_of(bmh).get("bootMode")
        known = self._machines.get(key)
        if known and known[0] == identity:
            return known[1]
        if known:
            known[1].detach()
        machine = self._machine_of(bmh, account)
        self._machines[key] = identity, machine
        return machine

    def _forget(self, key: Key) -> None:
        self._pauses.pop(key, None)
        if known := self._machines.pop(key, None):
            known[1].delete()


def _secret_key(bmh: Json) -> Key:
    return Key(key_of(bmh).namespace, str((spec_of(bmh).get("bmc") or {}).get("credentialsName") or ""))


def _decoded(secret: Json, name: str) -> str:
    try:
        return base64.b64decode((secret.get("data") or {}).get(name, ""), validate=True).decode()
    except ValueError:
        return ""


def _wrong(word: str) -> str:
    """Return the reason why a user name or password is none; the word itself is not in it."""
    if not word:
        return "is missing"
    if not word.isprintable():
        return "has a line break or another control character"
    # As in HTTP's basic authentication.
    return "" if all(ord(character) < 256 for character in word) else "has characters that are not in ISO 8859-1"
