"""The surfaces: the ways in which a run is used, over one driver."""
