"""Links that lead nowhere are left out, and those of an emulator that is unwell are not."""

from werkzeug.wrappers import Response

from lab.bmcs.resources.schemafixes import SchemaFixes
from lab.bmcs.web import Inner


def test_a_link_is_left_out_for_good_only_when_there_is_nothing():
    answers = {"/redfish/v1/a": [503, 200], "/redfish/v1/b": [404], "/redfish/v1/c": [500, 404, 200]}

    def emulator(environ, start_response):
        return Response("{}", answers[environ["PATH_INFO"]].pop(0))(environ, start_response)

    fixes = SchemaFixes(Inner(emulator))
    body = {name: {"@odata.id": f"/redfish/v1/{name}"} for name in "abc"}
    assert [fixes.document(body).keys() for _ in range(3)] == [{"a", "c"}, {"a"}, {"a"}]
