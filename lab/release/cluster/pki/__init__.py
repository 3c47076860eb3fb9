"""Certificates of a cluster that runs: kept in its API, renewed before they end, written onto its nodes."""
