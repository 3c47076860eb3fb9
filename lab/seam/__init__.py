"""The programs that a real openshift-install starts on its machine: `oc` and `nmstatectl`, which Debian has not."""
