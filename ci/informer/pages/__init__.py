"""Static pages of a history: one file each, no outside asset, for keyboards and screen readers too."""
