"""What is measured: candidates, without their layout rewrites, and the work they do."""
