"""Models of the course, one folder each."""
