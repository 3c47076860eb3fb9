"""The page for a browser and the stream that feeds it."""
