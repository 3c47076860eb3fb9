"""How jobs and releases are: nights, durations, clusters of failures, verdicts; and a simulated year of it."""
