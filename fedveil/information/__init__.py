"""Quantities of information, in bits unless said otherwise: `entropy` for discrete variables, exact or plug-in."""
