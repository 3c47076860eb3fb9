"""The state of jobs and releases: nights, durations, clusters of failures, verdicts; and a simulated year of it."""
