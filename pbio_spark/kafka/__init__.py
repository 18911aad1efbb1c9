"""Records in Kafka: formats in a compacted topic, (de)serialisers for confluent-kafka, relays to and from channels.

address      `kafka://host:port/topic`
settings     Kafka's settings as Spark names them -> as the client library does
client       the client library's consumers, producers and admin; its exceptions become PbioErrors
store        formats by ID in a topic
stores       the format store of an address, a folder or a topic
events       the events of a channel as bytes
outward      a channel -> a topic, each event once
inward       a topic -> a channel, each record once
serializers  dicts <-> records, as `SerializingProducer` and `DeserializingConsumer` take them

The client library comes with the extra `kafka` and is imported when a broker is first needed.
"""
