"""How often the audit's verdict is right: classifiers whose training is known, audited from their outputs alone.

`zoo` trains them, `calibration` derives limits from them, `experiment` audits them and lays out the results.
"""
