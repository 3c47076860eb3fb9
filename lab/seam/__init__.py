"""What a real openshift-install asks of the machine that it runs on: `oc` and `nmstatectl`, which Debian has not."""
