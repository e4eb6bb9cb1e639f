"""The statements of the sources of a job about its documents and groups, kept between runs."""
