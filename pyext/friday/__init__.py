"""Friday's Python surface."""
