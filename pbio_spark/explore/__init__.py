"""Pictures for notebooks: the lineage of formats, how well they match, the history of fields, the flow of events.

    lineage_plot       formats and the transforms between them
    score_map          the mismatch ratios of all pairs, as a heat map
    presence_timeline  the fields of the versions of a record type
    channel_flow       the events of a channel space, commit by commit

Every function draws into matplotlib axes and returns them; `pip install 'pbio-spark[viz]'` brings matplotlib.
"""

from pbio_spark.explore.channel_flow import channel_flow
from pbio_spark.explore.lineage_plot import lineage_plot
from pbio_spark.explore.presence_timeline import presence_timeline
from pbio_spark.explore.score_map import score_map

__all__ = ["lineage_plot", "score_map", "presence_timeline", "channel_flow"]
