"""What the sources of a job have stated about all its documents and groups, kept between runs."""
