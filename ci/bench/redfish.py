"""The BMCs against DMTF's validators: schemas, protocol, and the profile that OpenStack's Ironic asks for.

DMTF's schemas (the directory csdl of DMTF/Redfish-Publications) and Ironic's profile (redfish-interop-profiles in
openstack/ironic) are not ours to ship: their paths are given, and nothing is fetched but the validators themselves, by
pip into an environment of their own in the cache. The BMCs run here, over machines that run nothing.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from ci.bench.measure import table
from lab.bmcs.profile import profiles
from lab.host.paths import cache_dir
from lab.testing.bmcs import PASSWORD, USER, Running, running

VERSIONS = {
    "redfish_service_validator": "3.1.8",
    "redfish_protocol_validator": "1.3.2",
    "redfish_interop_validator": "3.0.4",
}
_SECONDS = 600
_FAILED = re.compile(r"ERROR - FAIL - (.*)")
# What is the vendor's own, and so is to fail: profile -> words of the message (docs/bmcs.md).
OWN: dict[str, tuple[str, ...]] = {
    # A drive that takes images from a console only, or by PATCH, or OEM alone: it has no actions.
    "openbmc": ("'EjectMedia' is mandatory", "'InsertMedia' is mandatory"),
    "xcc": ("'EjectMedia' is mandatory", "'InsertMedia' is mandatory"),
    # An iRMC's entity tags are bare numbers.
    "fujitsu": ("VirtualMedia", "PROTO_ETAG_RFC7232"),
    "bare": ("VirtualMedia",),
}
# No RAID: Ironic's profile asks it of whatever has Storage.
NO_RAID = ("'POST' not found in the Allow header", "OperationApplyTimeSupport")
# Ironic's profile wants VirtualMedia, which these have not; the validator counts that and logs no line of it.
NO_MEDIA = {"fujitsu": 1, "bare": 1}
# The validators do not speak TLS 1.1; half of what the lab's own says is sushy-tools'.
_SKIPPED = ("nobody", "lab")


def _program(name: str) -> Path:
    """Return a validator's program; all of them are installed once by pip."""
    place = cache_dir() / ("dmtf-" + "-".join(VERSIONS.values()))
    if not (place / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], check=True)
        pip = [str(place / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *(f"{package}=={version}" for package, version in VERSIONS.items())], check=True)
        (place / "done").touch()
    return place / "bin" / name


def _run(bmc: Running, program: str, *words: str) -> str:
    argv = [str(_program(program)), "-u", USER, "-p", PASSWORD, "-r", bmc.url, *words]
    trusted = {**os.environ, "REQUESTS_CA_BUNDLE": str(bmc.ca)}
    completed = subprocess.run(argv, env=trusted, capture_output=True, text=True, timeout=_SECONDS, check=False)
    return completed.stdout + completed.stderr


def _logged(folder: Path, output: str) -> tuple[Counter[str], list[str]]:
    """Verdicts and failures of the service or the interop validator."""
    totals = re.findall(r"^\|\s+(\d+)\s+\|\s+(\d+)\s+\|\s+(\d+)\s+\|\s+(\d+)\s+\|$", output, re.MULTILINE)
    if not totals:
        raise SystemExit(f"the validator said nothing:\n{output[-2000:]}")
    counts = Counter(dict(zip(("PASS", "WARN", "FAIL", "NOT_TESTED"), map(int, totals[-1]), strict=True)))
    [log] = folder.glob("*/*Debug*.log")
    return counts, _FAILED.findall(log.read_text())


def _protocol(bmc: Running, folder: Path) -> tuple[Counter[str], list[str]]:
    output = _run(
        bmc, "rf_protocol_validator", "--report-dir", str(folder), "--report-type", "tsv", "--ca-bundle", str(bmc.ca),
        "--avoid-http-redirect",
    )  # fmt: skip
    reports = list(folder.glob("*.tsv"))
    if not reports:
        raise SystemExit(f"the validator wrote nothing:\n{output[-2000:]}")
    with reports[0].open() as report:
        rows = list(csv.DictReader(report, delimiter="\t", quoting=csv.QUOTE_NONE))
    counts = Counter(row["Result"] for row in rows)
    return counts, [f"{row['Assertion']}: {row['Message']}" for row in rows if row["Result"] == "FAIL"]


def examine(name: str, schemas: Path, profile: Path, folder: Path) -> dict[str, tuple[Counter[str], list[str]]]:
    """Verdicts and failures of a profile's BMC by validator."""
    verdicts = {}
    (folder / "bmc").mkdir(parents=True)
    with running(name, folder / "bmc") as bmc:
        logs = folder / "service"
        output = _run(
            bmc, "rf_service_validator", "--logdir", str(logs), "--schema_directory", str(schemas), "--skipschema",
            "--nooemcheck", "--authtype", "Session",
        )  # fmt: skip
        verdicts["service"] = _logged(logs, output)
        verdicts["protocol"] = _protocol(bmc, folder / "protocol")
        logs = folder / "interop"
        output = _run(bmc, "rf_interop_validator", "--logdir", str(logs), "--authtype", "Session", str(profile))
        verdicts["interop"] = _logged(logs, output)
    return verdicts


def run(schemas: Path, profile: Path) -> None:
    """Print the verdicts on all profiles; SystemExit when anything fails that is not the vendor's own."""
    rows, wrong = [], []
    for name in (profile for profile in profiles() if profile not in _SKIPPED):
        with tempfile.TemporaryDirectory() as place:
            for validator, (counts, failures) in examine(name, schemas, profile, Path(place)).items():
                own = [text for text in failures if any(words in text for words in (*NO_RAID, *OWN.get(name, ())))]
                wrong += [f"{name}, {validator}: {text}" for text in failures if text not in own]
                text = ", ".join(f"{counts[verdict]} {verdict.lower()}" for verdict in ("PASS", "WARN", "FAIL"))
                silent = counts["FAIL"] - len(failures)
                if silent and not (validator == "interop" and silent == NO_MEDIA.get(name, 0)):
                    wrong.append(f"{name}, {validator}: {silent} failures that its log does not explain")
                rows.append((f"{name}, {validator}", f"{text}; {len(own)} of them the vendor's own"))
    table("DMTF's validators", rows)
    if wrong:
        raise SystemExit("\n".join(wrong))
