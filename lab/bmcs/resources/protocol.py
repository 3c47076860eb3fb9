"""The parts of every Redfish service (DSP0266): well-known documents, and headers of all answers."""

from __future__ import annotations

from lab.bmcs.state import ROOT, State
from lab.bmcs.web import Request, Response, document, refusal

_ACCOUNTS = f"{ROOT}/AccountService"
_ROLES = {
    "Administrator": ("Login", "ConfigureManager", "ConfigureUsers", "ConfigureSelf", "ConfigureComponents"),
    "Operator": ("Login", "ConfigureSelf", "ConfigureComponents"),
    "ReadOnly": ("Login", "ConfigureSelf"),
}
_OPEN = ("/redfish", f"{ROOT}/odata", f"{ROOT}/$metadata")
_SCHEMAS = "http://redfish.dmtf.org/schemas/v1"
# Schema file -> namespaces that documents are typed with.
_TYPES = {
    "ServiceRoot": ("ServiceRoot", "ServiceRoot.v1_5_0"),
    "ComputerSystem": ("ComputerSystem", "ComputerSystem.v1_13_0"),
    "Manager": ("Manager", "Manager.v1_3_1"),
    "VirtualMedia": ("VirtualMedia", "VirtualMedia.v1_3_2"),
    "SessionService": ("SessionService", "SessionService.v1_1_3"),
    "AccountService": ("AccountService", "AccountService.v1_5_0"),
}


def is_open(path: str) -> bool:
    """Tell whether anybody may ask for it."""
    return path in ("", ROOT, *_OPEN)


class Protocol:
    """The well-known documents of one BMC's service."""

    def __init__(self, state: State) -> None:
        self._state = state

    def check(self, request: Request, path: str) -> None:
        """Raise Refusal for what no part of the service answers."""
        if request.headers.get("OData-Version", "4.0") != "4.0":
            raise refusal(412, "Base.1.8.PreconditionFailed", "This service speaks OData-Version 4.0.")
        allowed = "GET, HEAD"
        readable = is_open(path) or path.startswith(_ACCOUNTS) or path.count("/") == ROOT.count("/") + 1
        if request.method not in ("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"):
            raise refusal(501, "Base.1.8.OperationNotAllowed", f"{request.method} is not known here.")
        if readable and request.method not in ("GET", "HEAD"):
            text = f"{request.method} is not allowed on {path or '/'}."
            raise refusal(405, "Base.1.8.OperationNotAllowed", text, headers={"Allow": allowed})

    def handle(self, request: Request, path: str) -> Response | None:
        """Answer for the well-known documents and the accounts' service; None for other paths. Raises Refusal."""
        if path == "/redfish":
            return document({"v1": f"{ROOT}/"})
        if path == f"{ROOT}/odata":
            return document(self._odata())
        if path == f"{ROOT}/$metadata":
            return Response(_metadata(), content_type="application/xml;charset=utf-8")
        if not f"{path}/".startswith(f"{_ACCOUNTS}/"):
            return None
        account = self._accounts().get(path.removeprefix(_ACCOUNTS))
        if account is None:
            raise refusal(404, "Base.1.8.ResourceMissingAtURI", f"The resource at the URI {path} was not found.")
        return document({"@odata.id": path, **account})

    def finish(self, request: Request, response: Response, path: str) -> Response:
        """Put in the headers that every answer has."""
        response.headers.setdefault("OData-Version", "4.0")
        response.headers.setdefault("Cache-Control", "no-cache")
        if request.method in ("GET", "HEAD") and response.status_code == 200:
            response.headers.setdefault("Allow", self._allowed(path))
            kind = (response.get_json(silent=True) or {}).get("@odata.type", "#ServiceRoot.").split(".")[0].strip("#")
            response.headers.setdefault("Link", f"<{_SCHEMAS}/{kind}_v1.xml>; rel=describedby")
        return response

    def _allowed(self, path: str) -> str:
        if path.rpartition("/")[0] == f"{ROOT}/Systems" or path.endswith("/Settings"):
            return "GET, HEAD, PATCH"
        if path.endswith("/SessionService/Sessions"):
            return "GET, HEAD, POST"
        return "GET, HEAD, DELETE" if "/SessionService/Sessions/" in path else "GET, HEAD"

    def _odata(self) -> dict[str, object]:
        kinds = ("Systems", "Managers", "SessionService", "AccountService")
        rows = [{"name": "Service", "kind": "Singleton", "url": f"{ROOT}/"}]
        rows += [{"name": kind, "kind": "Singleton", "url": f"{ROOT}/{kind}"} for kind in kinds]
        return {"@odata.context": f"{ROOT}/$metadata", "value": rows}

    def advertise(self, root: dict[str, object]) -> None:
        """Put the accounts' service into the service root."""
        root["AccountService"] = {"@odata.id": _ACCOUNTS}

    def _accounts(self) -> dict[str, dict[str, object]]:
        """Return all documents of the accounts' service, by what follows its path. The account itself is the lab's
        affair."""

        def collection(kind: str, name: str, members: list[str]) -> dict[str, object]:
            links = [{"@odata.id": _ACCOUNTS + member} for member in members]
            return {
                "@odata.type": f"#{kind}Collection.{kind}Collection", "Name": name, "Members": links,
                "Members@odata.count": len(links),
            }  # fmt: skip

        documents: dict[str, dict[str, object]] = {
            "": {
                "@odata.type": "#AccountService.v1_5_0.AccountService", "Id": "AccountService", "Name": "Accounts",
                "Roles": {"@odata.id": f"{_ACCOUNTS}/Roles"}, "Accounts": {"@odata.id": f"{_ACCOUNTS}/Accounts"},
            },
            "/Accounts": collection("ManagerAccount", "Accounts", []),
            "/Roles": collection("Role", "Roles", [f"/Roles/{name}" for name in _ROLES]),
        }  # fmt: skip
        for name, privileges in _ROLES.items():
            documents[f"/Roles/{name}"] = {
                "@odata.type": "#Role.v1_2_4.Role", "Id": name, "Name": f"{name} Role", "RoleId": name,
                "IsPredefined": True, "AssignedPrivileges": list(privileges),
            }  # fmt: skip
        return documents


def _metadata() -> str:
    """Return the service's metadata document (DSP0266, "OData $metadata")."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append('<edmx:Edmx xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx" Version="4.0">')
    for file, spaces in _TYPES.items():
        lines.append(f'<edmx:Reference Uri="{_SCHEMAS}/{file}_v1.xml">')
        lines += [f'<edmx:Include Namespace="{space}"/>' for space in spaces]
        lines.append("</edmx:Reference>")
    lines.append('<edmx:DataServices><Schema xmlns="http://docs.oasis-open.org/odata/ns/edm" Namespace="Service">')
    lines.append('<EntityContainer Name="Service" Extends="ServiceRoot.v1_5_0.ServiceContainer"/>')
    lines.append("</Schema></edmx:DataServices></edmx:Edmx>")
    return "\n".join(lines) + "\n"
