"""Doors to tools that users have: each is thin, and imports its library when it is used."""
