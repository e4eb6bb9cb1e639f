"""Documents of Google Discovery Engine (Vertex AI Search, Gemini Enterprise)."""
