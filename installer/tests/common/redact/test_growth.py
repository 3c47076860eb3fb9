"""Whatever a text is made of: the time that it takes grows as the text does."""

from __future__ import annotations

import base64
import gzip
import time

import pytest

from installer.common.redact import redact, redactor

pytestmark = pytest.mark.slow

NASTY = (
    "a", "\\", '"', '\\"', "'", "eyJ", "eyJ.", "password", "password:", 'password:"', "password=[", "token=[{",
    "token ", "://", "://a:b@", "a:b@", "-----BEGIN PRIVATE KEY-----", "-----BEGIN A ", "data:,", "data:a;b=c;", "[",
    "{", ")", "\\n", "\\npassword: |", '"name":"password",', "login -p ", "-u a:b ", "Authorization: ", "--password ",
    "Basic ", "keyFile{ data:,", "path: data:,a ", "A1b/", "kind: Secret data: ", '"data":{', "$6$", " \t", ', "',
    "x=y;", "%40", "%3A%2F%2Fa%3A", "password=", "password ='", "token: a b ", "token:/etc/",
    " " * 90 + "password: the ", " " * 190 + "token: the ", "token: is a ", "token: failed(", "{pw: ",
    "token: 404 Not Found ", 'password: Invalid value: "', "password is ", "password for a: ", 'password "a', "pass:",
    "value:'", "value: x,", "value: x name: ", "\nvalue: x", "\n- value: x\n  name: password", "\npassword: the\n  a",
    "kind: Secret, data: {a: ", 'kind: Secret, data: {a: "', "\nkind: Secret\nstringData: {a: b,", "\ndata: {a: b",
    "<password ", '<a:password x="', "\\u003cpassword\\u003e", "\\u0022password\\u0022:\\u0022", "&quot;", "?sig=",
    "--password\0", "--password\\u0000", "\0", "machine h ", "login u password ", "ipmitool -P ", "curl -u", "echo x",
    'password = """', "Private-Lines: 1\\nAAAA", "tokens: [", '<param name="password">', "name='key' >", "\x1b[1m",
    "u:p@[a:", "('password','x'", "password: xpassword: x", "password: x\n  ", "--password\n", "x\\x22\\",
    "value: |\n a", "\n---\nkind: Secret", "password:\n - [", "tokens:\n- a\n",
    "Nov 21 10:00:01 a b[7]: password: |\n  ",
    "password:\\n\\\\n", 'password = [\n"a', "-----BEGIN PRIVATE KEY-----\na\n",
)  # fmt: skip


@pytest.mark.parametrize("unit", NASTY)
def test_the_time_grows_as_the_text_does(unit: str) -> None:
    """Eight times the text: eight times the processor's time, where a square would be 64."""

    def seconds(size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        begin = time.process_time()
        redact(text)
        return time.process_time() - begin

    small = min(seconds(4_000) for _ in range(2))
    # Other programs only add to it: one that is quick enough is enough.
    assert any(seconds(32_000) < 25 * max(small, 0.001) for _ in range(3))


def packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 9)).decode()


def test_what_unpacks_to_much_is_not_looked_into_and_not_let_through() -> None:
    bomb = packed("password: hunter22\n" + "a: b\n" * 1_000_000)
    begin = time.process_time()
    assert redact(f"data:;base64,{bomb}") == "data:,[redacted]"
    assert redact(f"x {bomb} y") == "x [redacted] y"
    # What is in it, and in that again, counts together.
    many = packed("".join(f"data:;base64,{packed('a: b' * 5000)} {number}\n" for number in range(200)))
    inside = base64.b64decode(redact(f"data:;base64,{many}").partition(",")[2]).decode()
    assert inside.endswith("data:,[redacted] 199\n")
    assert time.process_time() - begin < 2
    # What an ordinary file unpacks to is looked into.
    assert redact(f"data:;base64,{packed('a: b' * 900)}") == f"data:;base64,{packed('a: b' * 900)}"
    assert base64.b64decode(redact(f"data:;base64,{packed('password: hunter22')}")[13:]) == b"password: [redacted]"


def test_a_long_text_is_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redactor, "LONGEST", 16 << 10)
    monkeypatch.setattr(redactor, "PIECE", 4 << 10)
    monkeypatch.setattr(redactor, "NEAR", 1 << 9)
    looked: list[int] = []
    hinted = redactor.hinted

    def noted(text: str) -> bool:
        looked.append(len(text))
        return hinted(text)

    monkeypatch.setattr(redactor, "hinted", noted)
    clean = redactor.Redactor().text("x=1, password=hunter22, " * 5000)
    assert clean == "x=1, password=[redacted], " * 5000
    assert max(looked) < 2 * (16 << 10)
