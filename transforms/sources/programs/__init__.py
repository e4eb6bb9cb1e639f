"""Programs as a source: a lister, a retriever, a transformer and an authorizer.

The calls are those of CommandLineAdaptor and CommandLineTransform in the GSA adaptor library.
"""
