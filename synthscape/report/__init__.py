"""Pictures of scenes, drawn from audio and labels only."""
