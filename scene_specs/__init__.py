"""The specs we ship, as package data."""
