"""The cluster-version-operator and the operators that it stands in for."""
