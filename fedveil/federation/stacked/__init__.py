"""Networks of many devices at once, along a leading axis."""
