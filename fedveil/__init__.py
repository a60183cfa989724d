"""fedveil trains, attacks, certifies and reports attribute privacy in federated learning."""

__version__ = "0.1.0"
