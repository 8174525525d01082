"""Adopting a site: what its login node says, as a site configuration."""
