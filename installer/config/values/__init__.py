"""Single values, and what is wrong with them: checks that rules share, URLs, addresses of BMCs."""
