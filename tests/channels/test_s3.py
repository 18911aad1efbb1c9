"""A space in a bucket: commits by conditional requests, against the S3 server of moto, which sometimes fails."""

from __future__ import annotations

from datetime import timedelta

from pbio_spark.channels import ChannelSpace
from pbio_spark.channels.check import problems
from tests.channels.spaces import COUNT, again, everything, values


def test_all_there_is_works_in_a_bucket(bucket: str) -> None:
    space = ChannelSpace.create(bucket)
    counts = space.create_channel("counts", COUNT)
    few = space.derive_channel("few", "counts", filter="{ return input.n > 2; }")
    for n in range(5):
        counts.submit({"n": n}, producer="p", sequence=n)
    other = again(space)
    assert other.channel("counts").submit([{"n": 4}, {"n": 5}], producer="p", sequence=4).events == 1
    events = everything(counts)
    assert [event.values["n"] for event in events] == list(range(6))
    assert [row["n"] for row in values(few)] == [3, 4, 5]
    reader = counts.subscribe(lambda event: None, start="earliest", name="reader")
    assert reader.run() == 6
    assert [(one.channel, one.name, one.position) for one in other.subscribers()] == [
        (counts.info.id, "reader", reader.position)
    ]
    assert space.compact() == 6
    assert other.vacuum(linger=timedelta(0)).files == 6
    assert everything(counts) == events
    assert list(problems(other)) == []
