"""The models' side: effects only. One protocol, one file a provider."""
