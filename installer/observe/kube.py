"""The few requests to the cluster's own API, with the official client and short timeouts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from installer.common.inputs import read_input
from installer.errors import StateError
from installer.observe.errors import KubeError, innermost
from installer.observe.service import Reach

Json = dict[str, Any]
CONFIG_GROUP = ("config.openshift.io", "v1")
ROUTE_GROUP = ("route.openshift.io", "v1")
PIECE = 1 << 16


def _items(answer: Json) -> list[Json]:
    items = answer.get("items")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _reason(body: bytes) -> str:
    """Return the message of a Status."""
    try:
        status = json.loads(body)
    except ValueError:
        return ""
    return str(status.get("message") or "") if isinstance(status, dict) else ""


class Kube:
    """Talks through a kubeconfig, whose CA verifies the server. Calls raise KubeError."""

    def __init__(self, kubeconfig: Path, reach: Reach) -> None:
        self._path = kubeconfig
        self._timeout = (reach.connect_timeout, reach.read_timeout)
        self._api: Any = None

    @property
    def host(self) -> str:
        """URL of the API as the kubeconfig has it."""
        return str(self._client().configuration.host)

    def close(self) -> None:
        """Drop the connections; the next call reads the kubeconfig anew."""
        if self._api is not None:
            self._api.close()
            pool = getattr(getattr(self._api, "rest_client", None), "pool_manager", None)
            if pool is not None:
                pool.clear()
            self._api = None

    def _client(self) -> Any:
        if self._api is None:
            # Imported late: this client takes a second to load, and a first look at the service needs none of it.
            from kubernetes import client, config

            from installer.common.formats.yamltext import load

            configuration = client.Configuration()
            try:
                load(read_input(self._path))  # the client reads it again, but without limits
                config.load_kube_config(config_file=str(self._path), client_configuration=configuration)
            except (config.ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                # A file that anybody may have edited: the client looks into it as if it had the right shape.
                raise StateError(f"cannot use {self._path}: {error}") from error
            # The caller's loop tries again; the client's own retries would only make each evaluation longer.
            configuration.retries = False
            self._api = client.ApiClient(configuration)
        return self._api

    def _call(
        self, what: str, ask: Callable[[Any, Any], Any], read: Callable[[Any], Any] = lambda answer: answer
    ) -> Any:
        api = self._client()
        import urllib3
        from kubernetes import client

        try:
            return read(ask(client, api))
        except client.ApiException as error:
            # Status 0: no answer; the client puts the kind of error on a line of its own before the reason.
            reason = str(error.reason or "").strip().split("\n")[-1]
            raise KubeError(
                f"{what}: {error.status or ''} {reason}".replace(":  ", ": "), int(error.status or 0)
            ) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
            # The client takes an answer for what it asked for, whatever is in it.
            raise KubeError(f"{what}: {innermost(error)}") from error

    def check_alive(self) -> str:
        """Return the API's version. Raises KubeError with the reason when it does not answer."""
        return str(
            self._call(
                "kube API",
                lambda k, api: k.VersionApi(api).get_code(_request_timeout=self._timeout),
                lambda code: code.git_version,
            )
        )

    def read(self, path: str, query: Sequence[tuple[str, str]] = (), *, seconds: float, most: int) -> bytes:
        """Return the body of a GET, or its first ``most`` bytes, waiting ``seconds`` at most. KubeError.status is the
        answer's, and 0 where it does not end in time."""

        def ask(k: Any, api: Any) -> bytes:
            deadline = time.monotonic() + seconds
            request = api.param_serialize("GET", path, query_params=list(query), auth_settings=["BearerToken"])
            answer = api.call_api(*request[:3], _request_timeout=(self._timeout[0], seconds)).response
            try:
                body = bytearray()
                while len(body) < most and (piece := answer.read1(min(PIECE, most - len(body)), decode_content=True)):
                    body += piece
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"no end within {seconds:.0f} s")
            finally:
                # What is left of it is not waited for.
                answer.close()
            if answer.status != 200:
                raise k.ApiException(status=answer.status, reason=_reason(bytes(body)) or answer.reason)
            return bytes(body)

        return bytes(self._call(f"GET {path}", ask))

    def node_addresses(self) -> dict[str, str]:
        """Names of the nodes by their internal addresses."""
        found: dict[str, str] = self._nodes(
            lambda nodes: {
                str(address.address): str(node.metadata.name)
                for node in nodes.items
                for address in node.status.addresses or ()
                if address.type == "InternalIP"
            }
        )
        return found

    def _nodes(self, read: Callable[[Any], Any]) -> Any:
        return self._call("nodes", lambda k, api: k.CoreV1Api(api).list_node(_request_timeout=self._timeout), read)

    def node_conditions(self) -> dict[str, dict[str, tuple[str, str, str]]]:
        """Return the nodes' conditions, by the node's name and the condition's type: status, reason, message."""
        found: dict[str, dict[str, tuple[str, str, str]]] = self._nodes(
            lambda nodes: {
                str(node.metadata.name): {
                    str(condition.type): (
                        str(condition.status or ""),
                        str(condition.reason or ""),
                        str(condition.message or ""),
                    )
                    for condition in node.status.conditions or ()
                }
                for node in nodes.items
            }
        )
        return found

    def config_map(self, namespace: str, name: str) -> dict[str, str]:
        """Return the data of a ConfigMap. KubeError.status is 404 when it does not exist."""
        config_map = self._call(
            f"ConfigMap {namespace}/{name}",
            lambda k, api: k.CoreV1Api(api).read_namespaced_config_map(name, namespace, _request_timeout=self._timeout),
        )
        return dict(config_map.data or {})

    def cluster_version(self) -> Json:
        """ClusterVersion ``version``."""
        return self._object(
            "ClusterVersion version",
            lambda k, api: k.CustomObjectsApi(api).get_cluster_custom_object(
                *CONFIG_GROUP, "clusterversions", "version", _request_timeout=self._timeout
            ),
        )

    def operators(self) -> list[Json]:
        """All ClusterOperators."""
        answer = self._object(
            "ClusterOperators",
            lambda k, api: k.CustomObjectsApi(api).list_cluster_custom_object(
                *CONFIG_GROUP, "clusteroperators", _request_timeout=self._timeout
            ),
        )
        return _items(answer)

    def operators_at(self) -> tuple[list[Json], datetime | None]:
        """All ClusterOperators, and the time by the API's own clock (to the second) if it sent that."""

        def ask(k: Any, api: Any) -> tuple[Any, Any]:
            answer = k.CustomObjectsApi(api).list_cluster_custom_object_with_http_info(
                *CONFIG_GROUP, "clusteroperators", _request_timeout=self._timeout
            )
            return answer[0], answer[2].get("Date")

        answer, text = self._call("ClusterOperators", ask)
        if not isinstance(answer, dict):
            raise KubeError("ClusterOperators: the answer is not an object")
        try:
            at = parsedate_to_datetime(text) if text else None
        except ValueError:
            at = None
        # A date without a zone is in none that could be compared.
        at = at if at is not None and at.tzinfo is not None else None
        return _items(answer), at

    def route(self, namespace: str, name: str) -> Json:
        """Return a Route. KubeError.status is 404 when it, or the whole API of routes, does not exist."""
        return self._object(
            f"Route {namespace}/{name}",
            lambda k, api: k.CustomObjectsApi(api).get_namespaced_custom_object(
                *ROUTE_GROUP, namespace, "routes", name, _request_timeout=self._timeout
            ),
        )

    def _object(self, what: str, ask: Callable[[Any, Any], Any]) -> Json:
        answer = self._call(what, ask)
        if not isinstance(answer, dict):
            raise KubeError(f"{what}: the answer is not an object")
        return answer
