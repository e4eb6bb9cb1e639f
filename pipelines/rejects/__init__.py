"""Rejects of finished runs: listed, shown, exported to be corrected, replayed, and accepted."""
