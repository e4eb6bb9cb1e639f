"""Bytes and texts of all formats: scans, streams, dates, URIs, and what XML can hold."""
