"""The values that travel between the stages of a run; each module has one kind of them."""
