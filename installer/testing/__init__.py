"""What the tests of installer/ share: fixtures, stand-ins for what is outside."""
