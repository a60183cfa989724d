"""Tables and figures of five papers on attribute privacy, reproduced with fedveil and set beside the papers' figures.

`cli.py` is the command `fedveil reproduce`, `preset.py` reads presets, and `kinds.py` lists what a preset can name.
`experiment.py` and `shown.py` are the base classes, and `rows.py` is the form of all results. Each paper has a package:
`tappfl`, `attri_fed`, `curious` and `recup`. Nothing is imported here, so that `fedveil --help` stays quick.
"""
