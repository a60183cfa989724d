"""TAPPFL's tables and figures, each made of a study's finished cells; other papers' presets may show them too."""
