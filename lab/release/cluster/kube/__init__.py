"""The Kubernetes API: client, kubeconfigs, leases, applying, conditions."""
