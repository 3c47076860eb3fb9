"""What nodes have and lack: probes, etcd's members, scaling."""
