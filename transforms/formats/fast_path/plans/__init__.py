"""What writers make of columns."""
