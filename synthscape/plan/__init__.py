"""Counter-based random numbers, and where every call stands: a `ScenePlan`, columns without audio."""
