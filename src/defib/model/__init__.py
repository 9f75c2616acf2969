"""Nouns: frozen structs in the shape the API server sends, only the fields we use. No IO, no clock, no logging."""
