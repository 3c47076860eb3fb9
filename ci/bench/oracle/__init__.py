"""`ci/bench/run oracle`: node0 held against the real openshift-install, over many inputs."""
