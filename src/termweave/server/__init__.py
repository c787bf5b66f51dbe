"""The translation server: `termweave serve`."""
