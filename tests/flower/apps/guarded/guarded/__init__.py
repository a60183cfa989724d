"""A test's app behind `shield_mod`."""
