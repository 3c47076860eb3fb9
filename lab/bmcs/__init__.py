"""The vendors' BMCs: their behaviour as data, and what lies in front of the emulator and behaves so (docs/bmcs.md)."""
