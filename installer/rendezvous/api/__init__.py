"""The REST API: the application, authentication, limits, bodies, and which fields are shown; handlers/ has the rest."""
