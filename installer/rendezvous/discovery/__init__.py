"""Discovery images and the release that they are made of."""
