"""The tests' smallest Flower app."""
