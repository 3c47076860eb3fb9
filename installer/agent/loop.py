"""Registration and the step loop (installer.md §6.1)."""

from __future__ import annotations

import hashlib
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from installer.agent import steps
from installer.agent.errors import MEDIA_LOST, Refused
from installer.assisted.enums import StepType
from installer.assisted.errors import ClientError
from installer.common.redact import shortened

log = logging.getLogger("agent")
FATAL_AT_REGISTRATION = (401, 403, 404, 409)
FIRST_BACKOFF, FACTOR, MAX_BACKOFF, GIVE_UP = 0.5, 1.5, 60.0, 15 * 60.0
# Delivering the answer of a step that is repeated every minute is given up after half of it: by then it is outdated.
GIVE_UP_REPEATED = 30.0
DEDUPE_SECONDS = 3600.0
# Steps that the service repeats each minute and whose answers it only keeps: it has no use for the same again. Every
# other step it asks for once and waits for the answer (a preparation, an installation, its logs), so that is always
# sent. OpenShift's agent suppresses all types alike; its service does not ask a second time for what it waits for.
REPEATED = frozenset(
    {
        StepType.INVENTORY,
        StepType.CONNECTIVITY,
        StepType.FREE_ADDRESSES,
        StepType.NTP,
        StepType.DOMAINS,
        StepType.VERIFY_VIPS,
        StepType.TANG,
        StepType.API_VIP,
    }
)


class Deduper:
    """Remembers the last successful answer of each step type that is repeated: the same again is not worth sending."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}
        self._flushed = 0
        self._lock = threading.Lock()

    @property
    def age(self) -> int:
        """Count the times that everything was forgotten: a caller compares it to see if that happened meanwhile."""
        with self._lock:
            return self._flushed

    def is_new(self, kind: str, question: Sequence[str], output: str) -> bool:
        """Return whether this was not sent within the last hour, to this question (the step's id, and its arguments).

        The service gives a step another id as soon as it has forgotten the answer.
        """
        if kind not in REPEATED:
            return True
        with self._lock:
            last = self._seen.get(kind)
        return last is None or last[0] != _digest(question, output) or self._clock() - last[1] > DEDUPE_SECONDS

    def sent(self, kind: str, question: Sequence[str], output: str, age: int) -> None:
        """Note that this answer, sent at ``age``, has reached the service."""
        with self._lock:
            if age == self._flushed:
                self._seen[kind] = (_digest(question, output), self._clock())

    def failed(self, kind: str, code: int) -> None:
        """Note a reported failure: an answer that was sent before is news again.

        A lost medium is the whole host's failure, until any step has succeeded.
        """
        if code == MEDIA_LOST:
            self.flush()
        with self._lock:
            self._seen.pop(kind, None)

    def flush(self) -> None:
        """Forget everything: the service may have lost it."""
        with self._lock:
            self._seen.clear()
            self._flushed += 1


def _digest(question: Sequence[str], output: str) -> str:
    return hashlib.sha256("\0".join([*question, output]).encode(errors="surrogatepass")).hexdigest()


class Agent:
    """One host's agent: registers, polls, runs steps each in its thread."""

    def __init__(
        self, context: steps.StepContext, interval: float, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._context = context
        self._interval = interval
        self._sleep = sleep
        self._dedupe = Deduper()
        # Arguments of the step that runs, and the step that comes after it, by type.
        self._running: dict[str, list[str]] = {}
        self._waiting: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        # Held while an answer is sent: one after the other they share the kept connection, instead of opening more.
        self._sending = threading.Lock()

    def register(self) -> None:
        """Register until the service takes this host. Raises Refused when it never will."""
        agent = self._context.agent
        while True:
            # Registering makes the service forget what it knew of this host.
            self._dedupe.flush()
            try:
                self._context.client.register_host(agent.infra_env_id, agent.host_id, agent.agent_image)
            except ClientError as error:
                if error.status in FATAL_AT_REGISTRATION:
                    raise Refused(error.status or 0, error.reason) from None
                log.warning("registration failed, next try in %.0f s: %s", self._interval, error)
                self._sleep(self._interval)
            else:
                # Answers that were under way may have come before the registration, and are forgotten with the rest.
                self._dedupe.flush()
                log.info("registered as host %s", agent.host_id)
                return

    def poll(self) -> dict[str, Any] | None:
        """Return the next instructions, with growing pauses between tries; None after 15 minutes without an answer."""
        agent = self._context.agent
        pause, started = FIRST_BACKOFF, time.monotonic()
        while True:
            try:
                return self._context.client.instructions(agent.infra_env_id, agent.host_id, agent.agent_image)
            except ClientError as error:
                # A service that was away may not know what it knew.
                self._dedupe.flush()
                if error.status == 404:
                    raise Refused(404, error.reason) from None
                if time.monotonic() - started > GIVE_UP:
                    log.error("no instructions for %.0f s: %s", GIVE_UP, error)
                    return None
                log.warning("no instructions: %s", error)
                self._sleep(pause * random.uniform(0.5, 1.5))
                pause = min(pause * FACTOR, MAX_BACKOFF)

    def start(self, step: dict[str, Any]) -> threading.Thread | None:
        """Run one instruction in its own thread; None when it is dropped or has to wait."""
        kind, identity = str(step.get("step_type", "")), str(step.get("step_id", ""))
        args = [str(item) for item in step.get("args") or []]
        with self._lock:
            if kind in self._running:
                # The same again (a slow host, or `install` after the service's restart): one is enough. With other
                # arguments it is another question, of which the last one counts.
                if self._running[kind] == args:
                    log.info("step %s is dropped: the same is running", identity)
                else:
                    self._waiting[kind] = step
                return None
            self._running[kind] = args
        thread = threading.Thread(target=self._work, args=(kind, identity, args), name=identity, daemon=True)
        thread.start()
        return thread

    def _work(self, kind: str, identity: str, args: list[str]) -> None:
        try:
            self._answer(kind, identity, args)
        finally:
            with self._lock:
                del self._running[kind]
                following = self._waiting.pop(kind, None)
            if following is not None:
                self.start(following)

    def _answer(self, kind: str, identity: str, args: list[str]) -> None:
        started = time.monotonic()
        code, output, error = steps.run(self._context, kind, args)
        log.info(
            "step %s ended with %d after %.1f s %s", identity, code, time.monotonic() - started, shortened(error, 500)
        )
        question = [identity, *args]
        if code == 0 and not self._dedupe.is_new(kind, question, output):
            return
        age = self._dedupe.age
        body = {"step_type": kind, "step_id": identity, "exit_code": code, "output": output, "error": error}
        delivered = self._deliver(kind, identity, body)
        if code:
            self._dedupe.failed(kind, code)
        elif delivered:
            self._dedupe.sent(kind, question, output, age)

    def _deliver(self, kind: str, identity: str, body: dict[str, Any]) -> bool:
        """Send an answer until the service takes or refuses it. Returns whether it took it."""
        agent = self._context.agent
        pause, started = FIRST_BACKOFF, time.monotonic()
        limit = GIVE_UP_REPEATED if kind in REPEATED else GIVE_UP
        while True:
            try:
                with self._sending:
                    self._context.client.reply(agent.infra_env_id, agent.host_id, agent.agent_image, body)
                return True
            except ClientError as failure:
                log.warning("the answer of step %s was not taken: %s", identity, failure)
                if not failure.is_passing or time.monotonic() - started > limit:
                    return False
            self._sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * FACTOR, MAX_BACKOFF)

    def serve(self) -> None:
        """Poll and run steps until told to exit, or until the service is gone for too long. Raises Refused."""
        while True:
            instructions = self.poll()
            if instructions is None:
                return
            for step in instructions.get("instructions") or []:
                self.start(step)
            if instructions.get("post_step_action") == "exit":
                return
            self._sleep(max(0.2, float(instructions.get("next_instruction_seconds") or 0)))

    def run(self) -> None:
        """Register and serve, again and again. Raises Refused."""
        while True:
            self.register()
            self.serve()
