"""Reports of a campaign."""
