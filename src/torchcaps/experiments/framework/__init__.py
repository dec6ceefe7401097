"""What all experiments share: running, caching and resuming them, statistics, figures and the report."""
