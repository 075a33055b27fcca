"""The steps of a run: batches, trials, leases, the journal, the winner, and replays."""
