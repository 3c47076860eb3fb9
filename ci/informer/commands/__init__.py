"""The commands of node0-ci."""
