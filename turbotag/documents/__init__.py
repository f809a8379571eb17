"""What a pipeline found in texts: plain objects, and what other libraries make of them."""
