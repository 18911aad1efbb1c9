"""The files of subscribers, and what is derived only while there are some.

subscribers  named subscribers: how far each has come, and when it was last there
watch        channels that go, or rest, with their last subscriber
"""
