"""``python -m installer.rendezvous``: the service, on TLS when a certificate is given."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from installer import logs
from installer.rendezvous import hwreqs, settings
from installer.rendezvous.errors import ConfigurationError

if TYPE_CHECKING:
    from installer.rendezvous.app import Service


TLS_BUFFER = 32 * 1024


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
) -> int:
    """Serve until told to stop; ``attach`` gets the service before its first request. Raises ConfigurationError."""
    import asyncio
    import gc
    import ssl
    from asyncio import sslproto

    from aiohttp import web

    from installer.rendezvous import prepare
    from installer.rendezvous.app import Service, build
    from installer.rendezvous.auth import Authenticator
    from installer.rendezvous.engine import Engine
    from installer.rendezvous.store import Store

    # Each TLS connection has a read buffer of this size. CPython's 256 KiB would be most of what a host costs; a record
    # of TLS has at most 16 KiB.
    sslproto.SSLProtocol.max_size = TLS_BUFFER
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
    engine = Engine(Store(config.db_path), config, requirements)
    service = Service(engine, config, auth, prepare.generate)
    attach(service)
    app = build(service)
    # What is loaded stays; the collector need not go through it again and again.
    gc.freeze()
    logging.getLogger("assisted-service").info("listening on port %d%s", config.port, " (TLS)" if context else "")
    # The access log names paths only at debug level: polls every few seconds would drown the rest.
    web.run_app(
        app,
        host=config.listen_host or None,
        port=config.port,
        ssl_context=context,
        print=None,
        access_log=None,
        handle_signals=True,
        loop=asyncio.new_event_loop(),
    )
    engine.store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
