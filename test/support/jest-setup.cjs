// swc declares the helper of `await using` under one name and uses it under another; the platform's own class does both.
globalThis._SuppressedError = SuppressedError;
