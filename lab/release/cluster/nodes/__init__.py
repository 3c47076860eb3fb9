"""The state of nodes and what they lack: probes, etcd's members, scaling."""
