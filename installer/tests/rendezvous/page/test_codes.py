"""One-time codes: what is taken once, for how long, and after how many attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from installer.assisted.auth import Scheme
from installer.assisted.errors import Unauthorized
from installer.rendezvous.page.codes import ATTEMPTS, LENGTH, LETTERS, SECONDS, Codes
from installer.testing.service.api_kit import header, serve


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


STEPS = st.lists(st.sampled_from(["right", "wrong", "empty", "old", "make", "wait"]), max_size=14)


@given(STEPS)
def test_a_code_is_good_once_and_for_two_minutes_and_five_attempts(steps: list[str]) -> None:
    """Against a model of three values; no order of attempts gets the token otherwise."""
    clock = Clock()
    codes = Codes(clock)
    code, old, usable, wrong, ends = "", "", False, 0, 0.0
    for number, step in enumerate(steps):
        if step == "make":
            old, code, usable, wrong, ends = code, codes.make(f"token {number}"), True, 0, clock.now + SECONDS
            assert len(code) == LENGTH
            assert set(code) <= set(LETTERS)
            continue
        if step == "wait":
            clock.now += SECONDS / 2
            continue
        typed = {"right": code, "wrong": "AAAA-AAAA", "empty": "", "old": old}[step]
        if usable and typed == code and wrong < ATTEMPTS and clock.now < ends:
            usable = False
            assert codes.take(f" {typed[:4]}-{typed[4:].lower()}", "there").startswith("token")
            assert codes.state()["used_by"] == "there"
        else:
            wrong += 1
            with pytest.raises(Unauthorized, match="have the rendezvous host show another"):
                codes.take(typed, "192.0.2.9")
            assert codes.state()["wrong"] == wrong


def test_attempts_are_bounded_and_codes_are_the_users_alone(tmp_path) -> None:
    async def use(client, fleet) -> None:
        for scheme in (Scheme.WATCHER, Scheme.AGENT):
            assert (await client.post("/page/code", headers=header(scheme))).status in (401, 403)
        assert (await client.post("/page/code")).status == 401
        made = await client.post("/page/code", headers=header(Scheme.USER))
        assert made.headers["Cache-Control"] == "no-store"
        tried = [await client.post("/page/token", json={"code": "BCDF-GHJK"}) for _ in range(40)]
        assert {answer.status for answer in tried[:20]} == {401}
        assert tried[-1].status == 429
        # What was right is no longer after that many.
        code = (await made.json())["code"]
        assert (await client.post("/page/token", json={"code": code})).status in (401, 429)
        state = await (await client.get("/page/code", headers=header(Scheme.USER))).json()
        assert (state["seconds"], state["used_by"], state["wrong_from"]) == (0, "", "127.0.0.1")

    serve(tmp_path, use)
