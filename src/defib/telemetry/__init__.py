"""What the operator says about itself: logs and metrics."""
