"""What `skitter demo` shows."""
