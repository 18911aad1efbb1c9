"""EVPath thin streams: programs that open a TCP connection and write an FFS file into it (evpath-thin).

settings    the settings of a gateway for them
stream      bytes -> stone, formats, records
entries     records of several connections -> one commit
committer   decides when to commit
room        limits the memory of all connections
inward      `ThinGateway`: connections -> events of channels
outward     `ThinSender`: events of a channel -> a connection
link        that connection: what has arrived, and whether the peer still responds
"""

from pbio_spark.gateways.evpath.inward import ThinGateway
from pbio_spark.gateways.evpath.outward import ThinSender
from pbio_spark.gateways.evpath.settings import Stone, ThinSettings
from pbio_spark.gateways.evpath.stream import ThinStream

__all__ = ["ThinGateway", "ThinSender", "ThinSettings", "Stone", "ThinStream"]
