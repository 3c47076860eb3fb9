"""The installers that are compared: commands that make manifests in an asset directory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ci.bench.oracle.answers import Answer

# A registry that does not answer (nobody listens on port 443): both programs make manifests without it.
RELEASE = f"127.0.0.1/ocp/release@sha256:{'1' * 64}"
NODE0 = (sys.executable, "-m", "installer")
TIMEOUT_S = 120
# For programs that openshift-install runs. This nmstatectl accepts all documents (compare.comparable).
_STAND_INS = {
    "nmstatectl": r"""#!/bin/sh
printf -- '---\nNetworkManager:\n- - eth0.nmconnection\n  - |\n    [connection]\n    id=eth0\n'
""",
    "oc": f"""#!/bin/sh
case "$*" in
  *"release info"*--image-for=*) echo 127.0.0.1/ocp/part@sha256:{"2" * 64} ;;
  *"release info"*) echo multi ;;
  *) echo "not known: $*" >&2; exit 1 ;;
esac
""",
}

#: Gives the answers to inputs, in their order.
Ask = Callable[[Sequence["Input"]], list[Answer]]


@dataclass(frozen=True)
class Input:
    """A name and the files of an asset directory, by relative path."""

    name: str
    files: Mapping[str, bytes]


def put(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write files below `directory`."""
    for name, data in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def collected(directory: Path) -> dict[str, str]:
    """All files there by relative path, but for the installers' own state and logs."""
    paths = (path for path in directory.rglob("*") if path.is_file() and not path.name.startswith(".openshift_install"))
    return {str(path.relative_to(directory)): path.read_text(errors="replace") for path in sorted(paths)}


@contextmanager
def installers(*programs: Sequence[str]) -> Iterator[list[Ask]]:
    """Provide the programs, each with the same environment, in which nothing of the user's is but PATH."""
    with tempfile.TemporaryDirectory(prefix="oracle-") as name:
        home = Path(name)
        put(home, {f"bin/{tool}": text.encode() for tool, text in _STAND_INS.items()})
        for tool in _STAND_INS:
            (home / "bin" / tool).chmod(0o755)
        env = {
            "PATH": f"{home}/bin:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(__file__).parents[3]),
            "HOME": name,
            "LC_ALL": "C.UTF-8",
            "OPENSHIFT_INSTALL_RELEASE_IMAGE_OVERRIDE": RELEASE,
            "OPENSHIFT_INSTALL_SKIP_HOSTCRYPT_VALIDATION": "1",
        }
        yield [partial(_answers, program, env) for program in programs]


def _answers(program: Sequence[str], env: Mapping[str, str], inputs: Sequence[Input]) -> list[Answer]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        answers = []
        for number, answer in enumerate(pool.map(partial(_answer, program, env), inputs), 1):
            answers.append(answer)
            if number % 250 == 0 or number == len(inputs):
                print(f"{program[0]}: {number} of {len(inputs)}", file=sys.stderr, flush=True)
        return answers


def _answer(program: Sequence[str], env: Mapping[str, str], case: Input) -> Answer:
    with tempfile.TemporaryDirectory(prefix="oracle-") as name:
        directory = Path(name)
        argv = [*program, "agent", "create", "cluster-manifests", "--dir", name]
        put(directory, case.files)
        try:
            completed = subprocess.run(argv, env=env, capture_output=True, timeout=TIMEOUT_S, check=False)
            code, text = completed.returncode, completed.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired:
            code, text = None, ""
        return Answer(code, text.replace(name, "DIR"), collected(directory))
