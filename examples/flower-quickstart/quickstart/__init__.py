"""A plain Flower app: PyTorch, the Message API, FedAvg."""
