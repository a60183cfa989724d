"""A test's app behind SecAgg+ and `shield_mod`."""
