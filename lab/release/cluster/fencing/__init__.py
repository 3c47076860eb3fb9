"""Two nodes that fence each other: how pacemaker is started on one, and the agent by which it runs etcd there."""
