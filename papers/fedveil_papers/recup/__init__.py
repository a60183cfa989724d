"""RecUP-FL (Cui et al. 2023): shields on updates against attackers who know the shield, and what they cost.

`cases.py` holds what its experiments are made of (data sets, shields with strengths, zoos); `laboratory` measures one
shield at one strength.
"""
