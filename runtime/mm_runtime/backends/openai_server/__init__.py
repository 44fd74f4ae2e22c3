"""What servers of OpenAI's API have in common.

Belongs here: the gateway's client of such a server, the body of a chat, the steps that stage a
checkpoint. Must not: know a program or its version; those are in folders of backends.
"""
