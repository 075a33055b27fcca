"""The command `tensorir`: a trained model is run, and tuned."""
