"""The REST API: the application, who may come in, what a request may be, what is shown; handlers/ do the rest."""
