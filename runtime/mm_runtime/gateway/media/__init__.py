"""Images, videos and audio of requests to the pixels and samples that the engine reads.

Belongs here: fetching and caching, limits, and `decoding`: processes that decode files of users.
Must not: resize as a checkpoint's processor does (the engine does), keep files of users.
"""
