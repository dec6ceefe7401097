"""What several tests share: small layers, reference implementations, tiny runs, a browser."""
