"""Generation on the engine protocol alone: batches, sampling, speculation, transcripts."""
