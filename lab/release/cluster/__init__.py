"""The lab's cluster: what the lab release installs, OpenShift's part of it (reference/cluster.md).

Everything here runs inside containers of the payload, with installer.common, PyYAML, cryptography and requests only.
"""
