"""Finds the records of XML, however damaged it is."""
