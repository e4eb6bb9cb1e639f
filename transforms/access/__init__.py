"""Who may see a document: decisions of chains of ACLs, and their fields in a search index."""
