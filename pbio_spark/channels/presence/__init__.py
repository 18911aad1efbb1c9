"""The files of subscribers, and channels that are derived only for subscribers.

subscribers  named subscribers: their positions, and when they were last present
watch        channels that end, or pause, with their last subscriber
"""
