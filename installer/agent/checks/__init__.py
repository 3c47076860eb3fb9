"""What a host can do: reach others, resolve names, write quickly."""
