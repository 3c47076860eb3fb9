"""Machines that node0 itself boots by their BMCs: `node0 agent boot`."""
