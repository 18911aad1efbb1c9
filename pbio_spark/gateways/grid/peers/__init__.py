"""Connections and their state, and what programs use.

session        one connection: requests, answers, subscriptions
subscriptions  the two ends of a subscription
asking         parameters of subscriptions and queries
events         `GridEvent`
connecting     outgoing connections, and listening
producer       `GridProducer`
consumer       `GridConsumer`
blocking       both without asyncio
"""
