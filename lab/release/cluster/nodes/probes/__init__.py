"""Probes on which each ClusterOperator's Available rests; their messages say what they looked at."""
