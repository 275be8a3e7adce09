"""HTTP nodes that run an engine, answer in the OpenAI shape, and move state between each other."""
