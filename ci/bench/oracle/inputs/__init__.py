"""Inputs for both programs: valid inputs, and the same with changes."""
