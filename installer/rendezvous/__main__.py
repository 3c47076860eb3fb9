"""``python -m installer.rendezvous``: the service, on TLS when a certificate is given."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from installer import logs
from installer.assisted.errors import ConfigurationError, StoreError
from installer.rendezvous import settings
from installer.rendezvous.validations import requirements as hwreqs

if TYPE_CHECKING:
    from installer.rendezvous.api.context import Service


def main(argv: list[str] | None = None) -> int:
    """Run until told to stop. Exit code 1 with one line when the environment is unusable."""
    parser = argparse.ArgumentParser(prog="assisted-service", description="Rendezvous service, set up by environment")
    parser.add_argument("--check", action="store_true", help="read the settings, then end")
    args = parser.parse_args(argv)
    logs.to_journal("%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        config = settings.load()
        requirements = hwreqs.load(config)
        if args.check:
            return 0
        return serve(config, requirements)
    except ConfigurationError as error:
        print(f"assisted-service: {error}", file=sys.stderr)
        return 1


def serve(
    config: settings.Settings,
    requirements: dict[str, hwreqs.Requirements],
    attach: Callable[[Service], None] = lambda service: None,
    started: Callable[[], None] = lambda: None,
) -> int:
    """Serve until told to stop; ``attach`` gets the service before its first request, ``started`` is called as soon as
    it listens. Raises ConfigurationError."""
    import ssl

    from installer.assisted.auth import Authenticator
    from installer.rendezvous.api import serving
    from installer.rendezvous.api.context import Service
    from installer.rendezvous.prepare import installer as prepare
    from installer.rendezvous.reconcile.engine import Engine
    from installer.rendezvous.store.database import Store

    context: ssl.SSLContext | None = None
    if config.cert_file and config.key_file:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(config.cert_file, config.key_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError("HTTPS_CERT_FILE, HTTPS_KEY_FILE", f"cannot be used: {error}") from None
    elif config.base_url.startswith("https:"):
        raise ConfigurationError("HTTPS_CERT_FILE, HTTPS_KEY_FILE", "are needed for an https SERVICE_BASE_URL")
    auth = Authenticator(config.auth_type, config.public_key_pem)
    try:
        store = Store(config.db_path)
    except StoreError as error:
        raise ConfigurationError("DB_PATH", str(error)) from None
    prepare.sweep(config)
    engine = Engine(store, config, requirements)
    service = Service(engine, config, auth, prepare.generate)
    attach(service)
    try:
        serving.run(service, context, started)
    finally:
        engine.store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
