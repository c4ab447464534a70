"""What tasks compute, by kind: from arrays to arrays, without memory or addresses."""
