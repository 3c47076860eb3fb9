"""User-provisioned infrastructure: Ignition configs for machines that users boot behind their own load balancer."""
