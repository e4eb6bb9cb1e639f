"""Explanations of who sees a document, from the runs of a job and from a target."""
