"""The API's messages, states and log entries: frozen values and their codec."""
