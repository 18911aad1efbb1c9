"""Channels, gateways and Kafka."""
