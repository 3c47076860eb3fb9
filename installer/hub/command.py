"""``node0 hub``: its options checked, and handed on."""

from __future__ import annotations

import argparse
import contextlib
import ssl
from ipaddress import ip_address
from pathlib import Path

from installer import logs
from installer.dirlock import locked
from installer.errors import ConfigError


def run(args: argparse.Namespace) -> int:
    """Run a sub-command; returns the exit code. Raises InstallerError."""
    if args.hub_command == "run":
        return _run(args)
    if args.hub_command == "render":
        from installer.hub.render import command

        return command.run(args.files, args.output)
    from installer.hub.kube.api import Api

    if args.hub_command == "install":
        _check_in_cluster(args.image, args.listen)
    api = Api.connect(args.kubeconfig)
    if args.hub_command == "wait-for":
        from installer.hub import waiting

        return waiting.run(api, args.resource, args.namespace, args.timeout)
    from installer.hub import setup

    if args.hub_command == "install":
        return setup.install(api, setup.InCluster(args.image, args.listen) if args.image else None)
    return setup.uninstall(api, with_resources=args.with_resources)


def _check_in_cluster(image: str | None, listen: str | None) -> None:
    from installer.hub.crds.manifests import WEBHOOK_PORT
    from installer.rendezvous.standalone import listening

    if bool(image) != bool(listen):
        raise ConfigError("--image and --listen: both, for an operator in the cluster, or neither")
    if listen and listening(listen)[1] == WEBHOOK_PORT:
        raise ConfigError(f"--listen {listen}: port {WEBHOOK_PORT} is that of the operator's webhooks")


def _run(args: argparse.Namespace) -> int:
    from installer.hub import operator
    from installer.rendezvous.standalone import listening

    problems = []
    if args.service:
        problems += ["--listen: not with --service"] if args.listen else []
        problems += [] if args.token else ["--service: needs --token, the service's auth/user-token"]
    else:
        problems += [f"--{name}: only with --service" for name in ("token", "ca") if getattr(args, name)]
        problems += [] if args.listen else ["needs --listen for a service of its own, or --service for a running one"]
    taken: dict[tuple[str, int], str] = {}
    for option in ("listen", "metrics", "webhook"):
        if getattr(args, option):
            try:
                place = address, _ = listening(getattr(args, option), f"--{option}", is_for_hosts=option == "listen")
                # In a cluster the API server asks its Service.
                if option == "webhook" and args.kubeconfig and ip_address(address).is_unspecified:
                    problems.append(f"--webhook {args.webhook}: must be the address at which the API server asks")
                if (other := taken.setdefault(place, option)) != option:
                    problems.append(f"--{option} {getattr(args, option)}: is that of --{other}")
            except ConfigError as error:
                problems.append(str(error))
    if args.bmc_ca:
        try:
            ssl.create_default_context(cafile=args.bmc_ca)
        except OSError as error:
            problems.append(f"--bmc-ca {args.bmc_ca}: no certificates can be read: {error.strerror or error}")
    if problems:
        raise ConfigError("\n".join(problems))
    metrics, webhook = (
        listening(getattr(args, name), f"--{name}", is_for_hosts=False) if getattr(args, name) else None
        for name in ("metrics", "webhook")
    )
    directory: Path = args.dir
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{directory} cannot be used: {error.strerror or error}") from None
    service: contextlib.AbstractContextManager[operator.ServiceAccess]
    if args.service:
        service = contextlib.nullcontext(operator.ServiceAccess(args.service, args.token, args.ca))
    else:
        service = operator.OwnService(directory.absolute() / "service", args.listen)
    logs.to_journal("%(asctime)s %(levelname)s %(name)s %(message)s", logs.LEVELS[args.log_level])
    with locked(directory):
        return operator.run(directory, args.kubeconfig, service, metrics=metrics, webhook=webhook, bmc_ca=args.bmc_ca)
