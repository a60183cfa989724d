"""Quantities of information, in bits unless said otherwise: `entropy` for discrete variables, exact or plug-in.

`mutual_information` estimates it for vectors; `kernels` measures dependence by HSIC and MMD, in no unit.
"""
