"""Machines without emulation: containers with an init of their own, fenced, with hardware as asked for."""
